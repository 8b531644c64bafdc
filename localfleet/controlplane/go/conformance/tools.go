//go:build tools

// What is built beside the specs, for `go mod tidy`.
package main

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/test/images/agnhost"
)
