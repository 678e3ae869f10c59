package environment

import (
	"context"
	"fmt"
	"time"

	"github.com/mooring-ccm/mooring/dev/bench/figures"
	"github.com/mooring-ccm/mooring/dev/relay"
)

// Meter measures what the managers do from its begin to its end.
type Meter struct {
	environment *Environment
	began       time.Time
	cpu         float64
	calls       map[string]figures.Calls
	traffic     relay.Traffic
	// seconds is the time until Lap.
	seconds float64
}

// Measure begins to measure.
func (e *Environment) Measure() (*Meter, error) {
	e.done, e.of = 0, 0
	for _, m := range e.managers {
		m.peak = 0
		if m.program.State() != nil {
			continue
		}
		if err := m.read(); err != nil {
			return nil, err
		}
		if err := resetPeak(m.program.PID()); err != nil {
			return nil, fmt.Errorf("reset the peak of %s: %w", m.program.Name(), err)
		}
		m.peak = 0
	}
	return &Meter{environment: e, cpu: e.cpu(), calls: e.Cloud.calls(), traffic: e.relay.Traffic(), began: time.Now()}, nil
}

// Lap notes the time. What follows is counted, and not timed.
func (m *Meter) Lap() { m.seconds = time.Since(m.began).Seconds() }

// End returns what was measured.
func (m *Meter) End(ctx context.Context, scenario string) (figures.Result, error) {
	e := m.environment
	ended, passed := time.Now(), e.relay.Traffic()
	result := figures.Result{
		Scenario: scenario, Variant: e.options.Variant.Name, Seconds: m.seconds, Done: e.done, Of: e.of,
		CPUSeconds: e.cpu() - m.cpu, Calls: since(m.calls, e.Cloud.calls()),
		ReceivedBytes: passed.Received - m.traffic.Received, SentBytes: passed.Sent - m.traffic.Sent,
	}
	for _, manager := range e.managers {
		result.PeakBytes = max(result.PeakBytes, manager.peak)
		result.ResidentBytes = max(result.ResidentBytes, manager.resident)
	}
	events, err := e.cluster.AuditEvents(ctx)
	if err != nil {
		return result, err
	}
	asked := requestsOf(events, e.identity.User(), m.began, ended)
	result.Writes, result.Reads, result.LeaseWrites = asked.writes, asked.reads, asked.leaseWrites
	if e.options.Inspect {
		result.LiveBytes, err = e.live(ctx)
	}
	return result, err
}

// since returns what was counted after some calls.
func since(before, after map[string]figures.Calls) map[string]figures.Calls {
	calls := map[string]figures.Calls{}
	for op, now := range after {
		then := before[op]
		difference := figures.Calls{
			Received: now.Received - then.Received, Refused: now.Refused - then.Refused, Failed: now.Failed - then.Failed,
		}
		if difference != (figures.Calls{}) {
			calls[op] = difference
		}
	}
	return calls
}
