package layer2

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	addresses *prometheus.GaugeVec
	frames    *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	m := &metrics{
		addresses: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: "mooring_metal_l2_addresses",
			Help: "Addresses that this replica answers ARP and neighbor solicitations for, by interface.",
		}, []string{"interface"}),
		frames: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "mooring_metal_l2_frames_total",
			Help: "Answers, announcements and questions that were sent, by protocol (arp, ndp) and result (success, error).",
		}, []string{"protocol", "result"}),
	}
	for _, protocol := range []string{"arp", "ndp"} { // an alert on a rate needs a value from before the first error
		for _, result := range []string{"success", "error"} {
			m.frames.WithLabelValues(protocol, result)
		}
	}
	return m
}

func (m *metrics) sent(is6 bool, err error) {
	protocol, result := "arp", "success"
	if is6 {
		protocol = "ndp"
	}
	if err != nil {
		result = "error"
	}
	m.frames.WithLabelValues(protocol, result).Inc()
}

// record counts the addresses of each interface.
func (m *metrics) record(parts map[string]map[netip.Addr]netip.Addr) {
	m.addresses.Reset()
	for name, part := range parts {
		m.addresses.WithLabelValues(name).Set(float64(len(part)))
	}
}
