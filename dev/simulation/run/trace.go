package run

import (
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/simulation/double"
)

// Trace prints the draw, the findings, and what both managers did to each object, or to some of them, side by side.
func (v Outcome) Trace(out io.Writer, only ...string) {
	_, _ = fmt.Fprintf(out, "%s\n", v.Draw)
	for _, finding := range v.Findings {
		_, _ = fmt.Fprintf(out, "%s\n", finding)
	}
	for _, line := range v.Account.Lines() {
		_, _ = fmt.Fprintf(out, "%s\n", line)
	}
	left, right := withEvents(v.Reference), withEvents(v.Mooring)
	objects := slices.AppendSeq(slices.Collect(maps.Keys(left)), maps.Keys(right))
	slices.Sort(objects)
	if len(only) > 0 {
		objects = slices.DeleteFunc(objects, func(object string) bool { return !slices.Contains(only, object) })
	}
	for _, object := range slices.Compact(objects) {
		_, _ = fmt.Fprintf(out, "\n%-66s  %s\n", "reference: "+object, "mooring: "+object)
		for i := range max(len(left[object]), len(right[object])) {
			_, _ = fmt.Fprintf(out, "%-66s  %s\n", at(left[object], i), at(right[object], i))
		}
		_, _ = fmt.Fprintf(out, "%-66s  %s\n", end(v.Reference, object), end(v.Mooring, object))
	}
}

// at returns a line, or nothing behind the last one.
func at(lines []line, i int) string {
	if i < len(lines) {
		return lines[i].timed
	}
	return ""
}

// Digest is a hash of what a manager did to an object: its calls and writes, and its end. Timed is the same with the times.
type Digest struct{ Trace, Timed uint64 }

// Digests returns the digests of all objects, by the names of the manager and of the object. A list of routes is in the timed digest only, because it
// is of no object.
func (v Outcome) Digests() map[string]Digest {
	digests := map[string]Digest{}
	for _, record := range []double.Record{v.Reference, v.Mooring} {
		for object, lines := range lines(record, nil) {
			trace, timed := fnv.New64a(), fnv.New64a()
			for _, line := range lines {
				_, _ = fmt.Fprintln(timed, line.timed) // a hash takes everything
				if object != ofLists {
					_, _ = fmt.Fprintln(trace, line.text)
				}
			}
			_, _ = fmt.Fprint(timed, end(record, object))
			_, _ = fmt.Fprint(trace, end(record, object))
			digests[record.Manager+" "+object] = Digest{trace.Sum64(), timed.Sum64()}
		}
	}
	return digests
}

// end is what an object was like at the end of the draw.
func end(record double.Record, object string) string {
	if node := record.Nodes[object]; node != nil {
		var taints []string
		for _, taint := range node.Spec.Taints {
			taints = append(taints, taint.Key)
		}
		var addresses []string
		for _, one := range node.Status.Addresses {
			addresses = append(addresses, one.Address)
		}
		return fmt.Sprintf("     end %s %s %s %s", node.Spec.ProviderID, node.Labels[corev1.LabelTopologyZone], taints, addresses)
	}
	if service := record.Services[object]; service != nil {
		var addresses []string
		for _, one := range service.Status.LoadBalancer.Ingress {
			addresses = append(addresses, one.IP)
		}
		return fmt.Sprintf("     end %s %s", addresses, service.Finalizers)
	}
	return "     end"
}
