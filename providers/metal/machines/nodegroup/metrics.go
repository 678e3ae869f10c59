package nodegroup

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/mooring-ccm/mooring/provider"
)

// metrics show what machines of groups are, and what became of commands.
type metrics struct {
	machines *prometheus.GaugeVec
	errors   *prometheus.GaugeVec
	commands *prometheus.CounterVec
	// codes are the codes of errors that were ever shown, by group. They are of the passes alone.
	codes map[string]map[string]int
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		codes: map[string]map[string]int{},
		machines: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_metal_node_group_machines",
			Help: "Machines of node groups, by group and state: running, waking, stopping, asleep, or unknown (to be on, and not known to be).",
		}, []string{"group", "state"}),
		errors: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_metal_node_group_errors",
			Help: "Machines of node groups that are shown to the Cluster Autoscaler with an error, by group and code: machine-rests, " +
				"machine-under-maintenance, power-on-timeout, record-unreadable, or the BMC's.",
		}, []string{"group", "code"}),
		commands: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_metal_node_group_commands_total",
			Help: "Commands to BMCs for node groups, by operation (turn-on, shut-down or turn-off) and result: succeeded, failed or outdated.",
		}, []string{"operation", "result"}),
	}
}

// states are the names of the states of machines that are not asleep.
var states = map[provider.NodeGroupInstanceState]string{
	provider.NodeGroupInstanceRunning: "running", provider.NodeGroupInstanceCreating: "waking",
	provider.NodeGroupInstanceDeleting: "stopping", provider.NodeGroupInstanceUnknown: "unknown",
}

// observe counts the machines of all groups. A series is never missing in between: what is there no more is zero, or goes with its group.
func (m *metrics) observe(seen snapshot, now time.Time) {
	present := map[string]bool{}
	for _, group := range seen.groups {
		present[group.Name] = true
		machines := seen.of(group)
		status := statusOf(machines, group.limits(), now)
		byState := map[string]int{"asleep": len(machines) - len(status.Instances)}
		for _, state := range states {
			byState[state] = 0
		}
		byCode := map[string]int{}
		for code := range m.codes[group.Name] {
			byCode[code] = 0
		}
		for _, instance := range status.Instances {
			byState[states[instance.State]]++
			if instance.Error != nil {
				byCode[instance.Error.Code]++
			}
		}
		for state, count := range byState {
			m.machines.WithLabelValues(group.Name, state).Set(float64(count))
		}
		for code, count := range byCode {
			m.errors.WithLabelValues(group.Name, code).Set(float64(count))
		}
		m.codes[group.Name] = byCode
	}
	for name := range m.codes {
		if !present[name] {
			gone := prometheus.Labels{"group": name}
			m.machines.DeletePartialMatch(gone)
			m.errors.DeletePartialMatch(gone)
			delete(m.codes, name)
		}
	}
}
