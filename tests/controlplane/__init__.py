"""Real control planes for tests: kube-apiserver, etcd and their companions, built from Go modules, as plain processes.

`binaries` finds or builds the programs, `plane` runs them, `fixtures` gives them to tests.
"""
