"""The main job on real control planes: kube-apiserver, etcd, controllers, KWOK nodes, real Ray and kubectl."""
