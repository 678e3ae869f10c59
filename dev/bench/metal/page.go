package metal

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mooring-ccm/mooring/dev/bench/metal/rack"
)

// begin and end enclose what Page writes.
const (
	begin = "<!-- Written by \"make bench-metal ARGS=--page=../../docs/benchmarks-metal.md\" from figures, up to the next mark; do not edit. -->"
	end   = "<!-- The end of these figures. -->"
)

// Page returns a page of the documentation with the section about the figures. The section takes the place of an earlier one, or comes last.
func Page(page string, r *Report) (string, error) {
	if !r.complete() {
		return "", errors.New("write the figures to the page: some are missing")
	}
	section := begin + "\n\n" + r.section() + "\n" + end + "\n"
	before, rest, found := strings.Cut(page, begin)
	if !found {
		return strings.TrimRight(page, "\n") + "\n\n" + section, nil
	}
	_, after, found := strings.Cut(rest, end+"\n")
	if !found {
		return "", fmt.Errorf("write the figures to the page: it has %q without %q", begin, end)
	}
	return before + section + after, nil
}

// section is what the page says.
func (r *Report) section() string {
	var b strings.Builder
	fmt.Fprintf(&b, `## Beside MetalLB

Mooring and MetalLB %s ran in one rack, one after the other: a control plane of Kubernetes %s, a router (%s), and 3 machines that are network
namespaces. Both had internal BGP sessions with a hold time of 9 s, all else by default.

Measured on %s on %s: %d cores, %s. Medians of %d.

`, r.MetalLB, r.Kubernetes, r.Router, r.Date.Format("2006-01-02"), r.Machine.CPU, r.Machine.Cores, r.Machine.Kernel, r.Repetitions())
	b.WriteString(r.table())
	b.WriteString(`
What is not comparable:

- Mooring announces from two replicas on the control plane, MetalLB from a speaker on each node. A node that returns is known at once to a speaker
  on it; a replica first probes it.
- MetalLB uses native BGP. Its default backend frr-k8s is left out.
- Processor time and memory are those of MetalLB's controller and 3 speakers, and of 2 replicas. A speaker runs on each node.
- No kubelet runs. The benchmark writes Nodes and EndpointSlices, and starts a killed program again after 1 s, as a kubelet starts a container.
- No kube-proxy runs. The benchmark answers Mooring's probes in its place, and reads routes from the router's kernel instead of counting requests.
- Without kube-controller-manager, no node becomes NotReady.
`)
	return b.String()
}

// table has a line for each row, with the median of each system.
func (r *Report) table() string {
	var b strings.Builder
	b.WriteString("| |")
	for _, system := range rack.Systems() {
		fmt.Fprintf(&b, " %s |", system)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(rack.Systems())) + "\n")
	for _, row := range r.rows() {
		fmt.Fprintf(&b, "| %s |", row.title)
		for _, system := range rack.Systems() {
			fmt.Fprintf(&b, " %s |", row.text(r.Figures[row.name][system]))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// text is the median of figures with about three digits, or a dash if there are none.
func (r row) text(of []float64) string {
	if len(of) == 0 {
		return "–"
	}
	middle, decimals := median(of), 0
	switch {
	case r.unit != seconds:
	case middle < 10:
		decimals = 2
	case middle < 100:
		decimals = 1
	}
	return strings.TrimSpace(fmt.Sprintf("%.*f %s", decimals, middle, r.unit))
}

// Table is the table of the page, with a dash where nothing was measured yet.
func Table(r *Report) string { return r.table() }
