package environment

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/dev/harness"
)

// ReportKilled waits until the managers that were stopped have ended, and reports that a while later, as kubelets do.
func (e *Environment) ReportKilled(ctx context.Context) error {
	for _, m := range e.managers {
		if !m.stopped {
			continue
		}
		select {
		case <-m.program.Done():
		case <-ctx.Done():
			return fmt.Errorf("%s ends: %w", m.program.Name(), context.Cause(ctx))
		}
	}
	ended := metav1.Now()
	if err := e.Pause(ctx, harness.Relist); err != nil {
		return err
	}
	for _, m := range e.managers {
		if !m.stopped {
			continue
		}
		if err := e.cluster.ReportKilled(ctx, m.pod, ended); err != nil {
			return fmt.Errorf("report the end of %s: %w", m.program.Name(), err)
		}
	}
	return nil
}
