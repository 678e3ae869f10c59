package cloudsim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	// readTimeout and idleTimeout bound what a slow or a silent client costs.
	readTimeout = 30 * time.Second
	idleTimeout = 2 * time.Minute
	// shutdownTimeout is how long calls may take to end when the cloud stops.
	shutdownTimeout = 5 * time.Second
)

// Serve answers calls on the listener until ctx ends: then no more calls are accepted, those in flight end, and nil is
// returned. Another error says why serving stopped early. The listener is closed in any case. A Service serves once.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		// Calls that wait because of a knob or hang because of a fault must not hold up the end.
		s.close()
		deadline, cancelDeadline := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancelDeadline()
		err := server.Shutdown(deadline)
		if err != nil {
			err = errors.Join(err, server.Close())
		}
		stopped <- err
	}()
	s.log.Info("simulated cloud serves", "address", listener.Addr().String(), "stateFile", s.options.StateFile)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the simulated cloud: %w", err)
	}
	if err := <-stopped; err != nil {
		return fmt.Errorf("stopping the simulated cloud: %w", err)
	}
	s.log.Info("simulated cloud stopped")
	return nil
}
