package ccm_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// TestRunInAProgram embeds the command, twice in one process and one after the other, and looks for what it leaves behind.
func TestRunInAProgram(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	first := newReplicas(t, cluster, kubeconfig, "--secure-port="+localclustertest.FreePort(t), "--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig)
	before := goleak.IgnoreCurrent()
	for range 2 {
		r := newReplicas(t, cluster, kubeconfig, first.args[4:]...)
		ctx, cancel := context.WithCancel(t.Context())
		command := ccm.NewCommand(testControllers()...)
		command.SetArgs(append(r.args, "--callLog="+string(r.callLog)))
		done := make(chan error, 1)
		go func() { done <- command.ExecuteContext(ctx) }()
		r.callLog.awaitAny(t, beating+" started")
		cancel()
		if err := <-done; err != nil {
			t.Fatalf("ended in order, but: %v", err)
		}
		r.callLog.awaitAny(t, "stop channel closed")
	}
	poll.Until(t, "nothing is left behind", func(context.Context) error { // One look of goleak takes half a second at most.
		return goleak.Find(before,
			// client-go keeps idle connections in a cache of transports, for the next client of the process with the same credentials.
			goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
			// klog flushes for as long as the process lives.
			goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
	})
}
