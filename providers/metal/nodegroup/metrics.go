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
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		machines: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_metal_node_group_machines",
			Help: "Machines of node groups, by group and state: running, waking, stopping, asleep, or unknown (to be on, and not known to be).",
		}, []string{"group", "state"}),
		errors: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_metal_node_group_errors",
			Help: "Machines of node groups that are shown to the Cluster Autoscaler with an error, by group and code.",
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

// observe counts the machines of all groups.
func (m *metrics) observe(seen snapshot, now time.Time) {
	m.machines.Reset()
	m.errors.Reset()
	for _, group := range seen.groups {
		machines := seen.of(group)
		status := statusOf(machines, group.limits(), now)
		for _, state := range states {
			m.machines.WithLabelValues(group.Name, state).Set(0)
		}
		m.machines.WithLabelValues(group.Name, "asleep").Set(float64(len(machines) - len(status.Instances)))
		for _, instance := range status.Instances {
			m.machines.WithLabelValues(group.Name, states[instance.State]).Inc()
			if instance.Error != nil {
				m.errors.WithLabelValues(group.Name, instance.Error.Code).Inc()
			}
		}
	}
}
