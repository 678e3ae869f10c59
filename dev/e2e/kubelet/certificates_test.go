package kubelet_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/mooring-ccm/mooring/dev/e2e/worker"
)

// healthz asks a kubelet how it is, through the API server, which verifies the kubelet's certificate.
func (l *fixture) healthz(ctx context.Context, m machine) error {
	answer, err := l.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + m.name + "/proxy/healthz").DoRaw(ctx)
	if err == nil && string(answer) != "ok" {
		err = fmt.Errorf("the kubelet answers %q", answer)
	}
	return err
}

// uncertified shows that the API server reaches no kubelet before an approver acts. Otherwise the next test would always pass.
func (l *fixture) uncertified(t *testing.T) {
	for _, m := range machines() {
		if err := l.healthz(t.Context(), m); err == nil {
			t.Errorf("the API server reaches the kubelet of %s, which can have no certificate that holds", m.name)
		}
	}
}

// certified waits until the API server reaches all kubelets: Mooring has approved their requests, and kube-controller-manager has signed.
func (l *fixture) certified(t *testing.T) {
	for _, m := range machines() {
		worker.Poll(t, fmt.Sprintf("the kubelet of %s is reached with a verified certificate", m.name), l.programs, func(ctx context.Context) error {
			return l.healthz(ctx, m)
		})
	}
}
