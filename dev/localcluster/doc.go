// Package localcluster builds, starts and stops a real Kubernetes control plane on this machine: etcd, kube-apiserver
// and, when asked for, kube-controller-manager. It is what the integration tests and the demo run against.
//
//	binaries, err := localcluster.Build(ctx, localcluster.BuildOptions{Progress: os.Stderr})
//	...
//	cluster, err := localcluster.Start(ctx, localcluster.Options{Binaries: binaries})
//	...
//	defer cluster.Stop(ctx)
//
// The programs are compiled from Go modules (the nested module dev/localcluster/binaries), in one of several versions of
// Kubernetes, and cached by content under the user's cache directory, so only the first build takes minutes. A control plane needs no privileges: it listens on
// loopback, on ports that it reserves for its whole life, talks to etcd through a socket in its own directory, and has
// its own certificate authority, so several can run at once. RBAC is on. It dies with the process that started it,
// also when that process is killed; for that the package needs Linux.
package localcluster
