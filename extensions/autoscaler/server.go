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
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-ccm/mooring/extensions/autoscaler/externalgrpc"
	"github.com/mooring-ccm/mooring/internal/required"
	"github.com/mooring-ccm/mooring/provider"
)

// Name is the name of the controller that serves the autoscaler, under which it writes to nodes.
const Name = "cluster-autoscaler-provider"

const (
	// callTimeout is how long a call may take: less than the autoscaler waits, so that it learns why.
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

// Options are what the server works with. All but Registerer and Logger are required.
type Options struct {
	// Groups are the provider's, by the client of the cloud.
	Groups provider.NodeGroups
	// Address is where to listen: host and port.
	Address string
	// Files are the certificates.
	Files Files
	// Client writes to nodes, Cached reads them from a cache with the indexes of package deletion, and Live from the API server.
	Client client.Client
	Cached client.Reader
	Live   client.Reader
	// Ours reports whether a node is one that this cloud controller manager looks after.
	Ours func(*corev1.Node) bool
	// Registerer takes the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
	// Logger is what the server logs to.
	Logger logr.Logger
}

// Server serves the autoscaler while this replica leads. It is a Runnable that needs leader election: on other replicas the port is closed, so
// that an autoscaler that tries one of them tries another.
type Server struct {
	address      string
	certificates *certificates
	service      *service
	metrics      *metrics
	log          logr.Logger
	serving      atomic.Pointer[net.Listener]
	problem      atomic.Pointer[error]
}

// New returns a server that does not listen yet. All options that are missing and all that is wrong with the files is named in one error.
func New(options Options) (*Server, error) {
	if err := required.Check("autoscaler server",
		required.Option{Name: "Groups", Missing: options.Groups == nil}, required.Option{Name: "Address", Missing: options.Address == ""},
		required.Option{Name: "Client", Missing: options.Client == nil}, required.Option{Name: "Cached", Missing: options.Cached == nil},
		required.Option{Name: "Live", Missing: options.Live == nil}, required.Option{Name: "Ours", Missing: options.Ours == nil},
	); err != nil {
		return nil, err
	}
	certificates, err := newCertificates(options.Files, options.Logger)
	if err != nil {
		return nil, fmt.Errorf("certificates of the autoscaler server: %w", err)
	}
	metrics := newMetrics(options.Registerer)
	return &Server{
		address: options.Address, certificates: certificates, metrics: metrics, log: options.Logger,
		service: &service{
			groups: options.Groups, observer: newObserver(options.Groups, metrics, options.Logger), pending: newPending(options.Cached),
			cached: options.Cached, live: options.Live, writer: options.Client, ours: options.Ours, metrics: metrics, log: options.Logger,
		},
	}, nil
}

// NeedLeaderElection says that only the leader serves.
func (s *Server) NeedLeaderElection() bool { return true }

// Start serves until ctx ends, and returns when no call to the cloud is under way any more. A port that cannot be opened is tried again: what
// else this replica does goes on.
func (s *Server) Start(ctx context.Context) error {
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
func (s *Server) failed(err error) {
	s.metrics.serving.Set(0)
	if s.problem.Swap(&err) == nil {
		s.log.Error(err, "The autoscaler is not served; trying again", "address", s.address)
	}
}

// serve answers calls until ctx ends or the listener fails.
func (s *Server) serve(ctx context.Context, listener net.Listener) {
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(s.certificates.config())), grpc.UnaryInterceptor(s.intercept), grpc.MaxRecvMsgSize(maxMessage),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: connectionGrace}),
		grpc.ConnectionTimeout(stopTimeout), grpc.WaitForHandlers(true),
	)
	externalgrpc.RegisterCloudProviderServer(server, s.service)
	s.problem.Store(nil)
	s.serving.Store(&listener)
	s.metrics.serving.Set(1)
	s.log.Info("Serving the autoscaler", "address", listener.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		s.failed(fmt.Errorf("serving the autoscaler: %w", err))
	case <-ctx.Done():
		stop(server)
		<-ended
	}
	s.serving.Store(nil)
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
func (s *Server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
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

// Address is where the server listens, empty while it does not.
func (s *Server) Address() string {
	if listener := s.serving.Load(); listener != nil {
		return (*listener).Addr().String()
	}
	return ""
}
