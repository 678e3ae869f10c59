package bench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mooring-ccm/mooring/dev/openstack"
	"github.com/mooring-ccm/mooring/dev/openstack/faultproxy"
)

// Result is what one manager did in one phase.
type Result struct {
	// Program and Phase say whose result it is and of what.
	Program, Phase string
	// Seconds is how long it took until all was as wanted.
	Seconds float64
	// Calls are the calls until the manager made no further ones, by kind. Refused are the calls among them that the cloud refused or did not answer.
	Calls   faultproxy.Counts
	Refused map[Refusal]int
}

// Refusal is what refused calls are counted by: what was asked, and the status of the answer, 0 if there was none.
type Refusal struct {
	faultproxy.Kind
	Status int
}

// String returns the refusal as "loadbalancer PUT /v2.0/lbaas/pools/{id}/members: 409".
func (r Refusal) String() string { return fmt.Sprintf("%s: %d", r.Kind, r.Status) }

// refused is the lowest status of an answer that is no answer to the question. A 404 is one.
const refused, notFound = 400, 404

// count counts calls.
func (r *Result) count(calls []faultproxy.Call) {
	r.Calls, r.Refused = faultproxy.Count(calls), map[Refusal]int{}
	for _, call := range calls {
		if call.Status == 0 || call.Status >= refused && call.Status != notFound {
			r.Refused[Refusal{faultproxy.Kind{Service: call.Service, Method: call.Method, Template: call.Template}, call.Status}]++
		}
	}
}

// refusals returns how many calls were refused.
func (r Result) refusals() int {
	sum := 0
	for _, count := range r.Refused {
		sum += count
	}
	return sum
}

// Total returns the number of calls of all services.
func (r Result) Total() int { return r.Calls.Total() }

// services are the columns of the table.
var services = []struct {
	name    string
	service openstack.Service
}{
	{"keystone", openstack.Identity}, {"nova", openstack.Compute}, {"neutron", openstack.Network}, {"octavia", openstack.LoadBalancer},
}

// Table returns the results as a table in Markdown, with the phases of all managers side by side.
func Table(results []Result) string {
	var out strings.Builder
	out.WriteString("| phase | manager | keystone | nova | neutron | octavia | calls | refused | seconds |\n|---|---|---|---|---|---|---|---|---|\n")
	var phases []string
	for _, result := range results {
		if !slices.Contains(phases, result.Phase) {
			phases = append(phases, result.Phase)
		}
	}
	for _, phase := range phases {
		for _, result := range results {
			if result.Phase != phase {
				continue
			}
			fmt.Fprintf(&out, "| %s | %s |", phase, result.Program)
			for _, service := range services {
				fmt.Fprintf(&out, " %d |", result.Calls.Total(string(service.service)))
			}
			fmt.Fprintf(&out, " %d | %d | %.1f |\n", result.Total(), result.refusals(), result.Seconds)
		}
	}
	return out.String()
}

// Kinds returns what each manager called in each phase, the most frequent first, and then what was refused.
func Kinds(results []Result) string {
	var out strings.Builder
	for _, result := range results {
		fmt.Fprintf(&out, "%s, %s\n%s", result.Program, result.Phase, result.Calls)
		lines := []string{}
		for refusal, count := range result.Refused {
			lines = append(lines, fmt.Sprintf("%6d refused: %s\n", count, refusal))
		}
		slices.Sort(lines)
		out.WriteString(strings.Join(lines, ""))
	}
	return out.String()
}

// Totals returns the number of calls of each manager in some phases.
func Totals(results []Result, phases ...string) map[string]int {
	totals := map[string]int{}
	for _, result := range results {
		if slices.Contains(phases, result.Phase) {
			totals[result.Program] += result.Total()
		}
	}
	return totals
}

// Ratios says, for phases together, how many of the calls of the manager with the most each makes.
func Ratios(results []Result, phases ...string) string {
	totals := Totals(results, phases...)
	most := 0
	for _, total := range totals {
		most = max(most, total)
	}
	var lines strings.Builder
	for _, name := range slices.SortedFunc(maps.Keys(totals), func(a, b string) int {
		return cmp.Or(cmp.Compare(totals[a], totals[b]), strings.Compare(a, b))
	}) {
		fmt.Fprintf(&lines, "%s: %d calls, %.0f %% of %d\n", name, totals[name], 100*float64(totals[name])/float64(max(1, most)), most)
	}
	return lines.String()
}
