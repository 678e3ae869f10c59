package witness

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/mooring-ccm/mooring/internal/version"
)

const (
	// terminationGrace is for what the dead process had sent: requests to the API server that the kernel has still to send or the server to
	// serve, and changes that the cloud has acknowledged and does not show yet.
	terminationGrace = time.Second
	// patience is the longest that releasing may take. It is less if the leases expire before.
	patience = 10 * time.Second
	// requestTimeout is the deadline of one request.
	requestTimeout = 2 * time.Second
)

// Connect returns how to reach the API server, by the values of --kubeconfig and --master.
type Connect func(kubeconfig, master string) (*rest.Config, error)

// Run makes this process a witness if it was started as one, and returns true when it has done its part: then the program is to end. In any
// other process it returns false at once. It is to be called before anything else is done.
func Run(connect Connect) bool {
	text, asked := os.LookupEnv(variable)
	if !asked {
		return false
	}
	_ = os.Unsetenv(variable) // what this process starts is no witness
	// They are sent to the whole process group or control group of the parent, which ends this process when it has ended in order.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	logger := klog.Background()
	defer klog.Flush()
	settings, err := decode(text)
	if err == nil {
		err = settings.attend(logger, connect)
	}
	if err != nil {
		logger.Error(err, "The lease cannot be released after the end of the manager's process, and has to expire")
	}
	return true
}

// attend waits for the end of the parent and does what is left to do then.
func (s Settings) attend(logger logr.Logger, connect Connect) error {
	debug.FreeOSMemory() // this process does nothing for days
	if err := awaitEnd(parentFile); err != nil {
		return fmt.Errorf("whether the manager's process has ended is not certain: %w", err)
	}
	writes, err := record{os.NewFile(recordFile, "record")}.writes()
	if err != nil {
		return err
	}
	if writes > 0 {
		logger.Info("The manager's process is gone while the cloud worked on its writes: the lease is left to expire", "underWay", writes)
		return nil
	}
	time.Sleep(terminationGrace)
	config, err := connect(s.Kubeconfig, s.Master)
	if err != nil {
		return err
	}
	config = version.AddUserAgent(rest.CopyConfig(config), "leader-election-witness")
	config.Timeout = requestTimeout
	config.ContentType, config.AcceptContentTypes = "", "" // JSON
	client, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client for leases: %w", err)
	}
	s.releaseAll(logger, client)
	return nil
}

// releaseAll releases all leases at once: one that cannot be released holds up no other.
func (s Settings) releaseAll(logger logr.Logger, client coordinationv1client.LeasesGetter) {
	ctx, cancel := context.WithTimeout(context.Background(), min(patience, s.Duration))
	defer cancel()
	var each sync.WaitGroup
	for _, lease := range s.Leases {
		each.Go(func() {
			switch done, err := release(ctx, client.Leases(lease.Namespace), lease); {
			case err != nil:
				logger.Error(err, "The manager's process is gone, and its lease has to expire", "lease", lease.String())
			case done:
				logger.Info("The manager's process is gone: its lease is released", "lease", lease.String())
			}
		})
	}
	each.Wait()
}
