"""Real control planes on loopback: kube-apiserver, etcd and their companions as processes, for
tests and the demo.

`binaries` finds the programs or builds them from the Go modules in `go`, `plane` runs them.
"""
