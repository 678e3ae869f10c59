// Package service tests the service controller against a real control plane, under the rights that Mooring ships.
package service_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/localcluster"
)

// The control plane is shared: the tests run one after the other, each with Services, nodes, a cloud and a manager of its own.
var (
	cluster *localcluster.Cluster
	admin   *kubernetes.Clientset
)

func TestMain(m *testing.M) {
	logf.SetLogger(logr.Discard()) // each manager has a logger of its test; this is for what is logged outside of all
	if os.Getenv(asProcess) != "" {
		os.Exit(process())
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run starts the control plane, runs the tests and leaves nothing behind, except the control plane's files if a test failed.
func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	binaries, err := localcluster.Build(ctx, localcluster.BuildOptions{
		Parts: []localcluster.Part{localcluster.ControlPlane}, Progress: os.Stderr,
	})
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "mooring-service-test-")
	if err != nil {
		return 1, err
	}
	cluster, err = localcluster.Start(ctx, localcluster.Options{Binaries: binaries, Dir: dir, Audit: auditv1.LevelMetadata})
	if err != nil {
		return 1, err
	}
	if err := cluster.Apply(ctx, deploy.RBAC); err != nil {
		return 1, err
	}
	if admin, err = kubernetes.NewForConfig(cluster.AdminConfig()); err != nil {
		return 1, err
	}
	code = m.Run()
	stopping, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := cluster.Stop(stopping); err != nil {
		return 1, err
	}
	if code != 0 {
		return code, fmt.Errorf("logs and data of the control plane are kept in %s", dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return 1, err
	}
	return 0, goleak.Find(queueLeaks()...)
}

// queueLeaks are goroutines of controller-runtime's priority queue that may outlive it: a queue that is shut down while it hands
// out an item waits for ever for somebody to take it, with its lock held.
func queueLeaks() []goleak.Option {
	var options []goleak.Option
	for _, method := range []string{"handleReadyItems", "handleAddBuffer", "handleWaitingItems"} {
		options = append(options, goleak.IgnoreAnyFunction(
			"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...])."+method))
	}
	return options
}
