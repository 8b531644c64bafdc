"""The fields of a Pod in each supported version of Kubernetes, read from k8s.io/api."""
