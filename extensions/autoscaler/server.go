package autoscaler

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/extensions/autoscaler/externalgrpc"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// callTimeout is how long a call may take: less than the autoscaler waits, so it learns why.
	callTimeout = 4500 * time.Millisecond
	// connectionAge is how long a connection lives: a certificate that was withdrawn is of no use for longer.
	connectionAge, connectionGrace = 15 * time.Minute, 10 * time.Second
	// stopTimeout is how long calls may take to end when this replica stops leading.
	stopTimeout = 5 * time.Second
	// listenAgain is how long to wait before a port is tried again that could not be opened.
	listenAgain = 5 * time.Second
	// maxMessage is how many bytes a request may have.
	maxMessage = 4 << 20
)

// server serves the autoscaler while this replica leads. It is a Runnable that needs leader election. On other replicas the port is closed, and an
// autoscaler that tries one of them then tries another.
type server struct {
	address      string
	certificates *certificates
	service      *service
	metrics      *metrics
	log          logr.Logger
	problem      atomic.Pointer[error]
}

// newServer returns a server that does not listen yet. The cache of the environment's Manager has the indexes of package deletion.
func newServer(environment ccm.Environment, groups provider.NodeGroups, ours func(*corev1.Node) bool, address string, files files) (*server, error) {
	certificates, err := newCertificates(files, environment.Logger)
	if err != nil {
		return nil, fmt.Errorf("certificates of the autoscaler server: %w", err)
	}
	metrics, cached := newMetrics(environment.Registerer), environment.Manager.GetCache()
	return &server{
		address: address, certificates: certificates, metrics: metrics, log: environment.Logger,
		service: &service{
			groups: groups, observer: newObserver(groups, metrics, environment.Logger), pending: newPending(cached, certificates.seal), cached: cached,
			live: environment.Manager.GetAPIReader(), writer: environment.Client, ours: ours, metrics: metrics, log: environment.Logger,
		},
	}, nil
}

// NeedLeaderElection says that only the leader serves.
func (s *server) NeedLeaderElection() bool { return true }

// Start serves until ctx ends, and returns when no call to the cloud is under way. A port that cannot be opened is tried again: what
// else this replica does goes on.
func (s *server) Start(ctx context.Context) error {
	s.service.observer.begin(ctx)
	defer s.service.observer.running.Wait()
	defer s.metrics.serving.Set(0)
	for ctx.Err() == nil {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
		if err != nil {
			s.failed(fmt.Errorf("listening for the autoscaler: %w", err))
			select {
			case <-ctx.Done():
			case <-time.After(listenAgain):
			}
			continue
		}
		s.serve(ctx, listener)
	}
	return nil
}

// failed notes why the autoscaler is not served.
func (s *server) failed(err error) {
	s.metrics.serving.Set(0)
	if s.problem.Swap(&err) == nil {
		s.log.Error(err, "Cannot serve the autoscaler; trying again", "address", s.address)
	}
}

// serve answers calls until ctx ends or the listener fails.
func (s *server) serve(ctx context.Context, listener net.Listener) {
	served := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(s.certificates.config())), grpc.UnaryInterceptor(s.intercept), grpc.MaxRecvMsgSize(maxMessage),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: connectionGrace}),
		grpc.ConnectionTimeout(stopTimeout), grpc.WaitForHandlers(true),
	)
	externalgrpc.RegisterCloudProviderServer(served, s.service)
	s.problem.Store(nil)
	s.metrics.serving.Set(1)
	s.log.Info("Serving the autoscaler", "address", listener.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- served.Serve(listener) }()
	select {
	case err := <-ended:
		s.failed(fmt.Errorf("serving the autoscaler: %w", err))
	case <-ctx.Done():
		stop(served)
		<-ended
	}
	s.metrics.serving.Set(0)
}

// stop lets the calls under way end, for a while.
func stop(server *grpc.Server) {
	stopped := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(stopTimeout):
		server.Stop()
		<-stopped
	}
}

// intercept bounds a call, counts it, and makes an error of a panic.
func (s *server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
	ctx, cancel := context.WithTimeout(logr.NewContext(ctx, s.log), callTimeout)
	defer cancel()
	began := time.Now()
	method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	defer func() {
		if reason := recover(); reason != nil {
			err = status.Errorf(codes.Internal, "%s panicked; its stack is in the log", method)
			s.log.Error(fmt.Errorf("panic: %v", reason), "A call of the autoscaler panicked", "method", method, "stack", string(debug.Stack()))
		}
		code := status.Code(err)
		s.metrics.called(method, code, time.Since(began))
		if err != nil && code != codes.Unimplemented {
			s.log.Info("A call of the autoscaler failed", "method", method, "code", code.String(), "reason", status.Convert(err).Message())
		}
	}()
	return handler(ctx, request)
}
