package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mooring-ccm/mooring/dev/demo/render"
)

// keep leaves everything running until ctx ends, with two replicas again, and says what there is to look at.
func (s *environment) keep(ctx context.Context) error {
	var failure error
	if old, ok := s.replicas[firstReplica]; ok {
		select {
		case <-old.Done():
			_, failure = s.startReplica(firstReplica)
		default:
		}
	}
	for _, r := range s.replicas {
		r.release() // the user may stop one
	}
	fmt.Fprint(s.options.Out, s.invitation(s.options.Style))
	<-ctx.Done()
	fmt.Fprintln(s.options.Out, "\nStopping everything ...")
	return failure
}

// invitation says what there is to look at.
func (s *environment) invitation(style render.Style) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("\n%s\n", style.Strong("Everything is left running until Ctrl-C."))
	if s.rack != nil {
		s.rack.invite(s, line)
		return b.String()
	}
	line("  export KUBECONFIG=%s", s.cluster.AdminKubeconfig())
	line("  kubectl get nodes -L topology.kubernetes.io/zone,node.kubernetes.io/instance-type")
	line("  bin/mooring check")
	line("  bin/mooring status")
	line("  kubectl get events --field-selector source=cloud-node-controller")
	line("  kubectl -n kube-system get lease %s -o yaml", leaseName)
	if s.client != nil {
		line("\nThe cloud can be changed (docs/reference/sim.md); this resizes an instance:\n")
		line("  curl -X PUT -H \"Authorization: Bearer $(cat %s)\" -H 'Content-Type: application/json' \\", s.tokenFile)
		line("    -d '{\"name\": \"node-002\", \"zone\": \"sim-1b\", \"machineType\": \"sim.large\", " +
			"\"addresses\": [{\"type\": \"InternalIP\", \"address\": \"10.0.0.3\"}, " +
			"{\"type\": \"ExternalIP\", \"address\": \"100.64.0.3\"}]}' \\")
		line("    %s/v1/instances/i-00000002", s.endpoint)
	}
	if s.private != nil {
		s.private.invite(s, line)
	}
	if len(s.replicas) > 0 {
		line("\nStop the leader, and see who holds the lease then:\n")
		for _, name := range slices.Sorted(maps.Keys(s.replicas)) {
			note := name
			if name == s.leader {
				note += ", which leads"
			}
			line("  kill -TERM %d   # %s", s.replicas[name].PID(), note)
		}
	}
	line("\nLogs are in %s", s.logs)
	return b.String()
}
