package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/internal/names"
)

// Detail is what is shown of one object that was asked for by name.
type Detail struct {
	// Help is what to do about the state, empty if it is as it should be.
	Help string `json:"help,omitempty"`
	// Facts are what decides about the object: addresses, taints, annotations.
	Facts []string `json:"facts,omitempty"`
	// Events are the last ones, the newest first.
	Events []Event `json:"events,omitempty"`
}

// Event is an event as it is shown.
type Event struct {
	Time    time.Time `json:"time"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// maxEvents is how many events of an object are shown.
const maxEvents = 10

// AddDetails adds to each node and Service what is shown of objects that were asked for by name.
func (s *Status) AddDetails(seen Seen) {
	for i := range s.Nodes {
		of, row := &seen.Nodes[slices.IndexFunc(seen.Nodes, func(n corev1.Node) bool { return n.Name == s.Nodes[i].Name })], &s.Nodes[i]
		row.Detail = &Detail{Help: helpForNode(*row), Facts: factsOfNode(of), Events: lastEvents(seen.Events, "Node", "", of.Name)}
	}
	for i := range s.Services {
		row := &s.Services[i]
		of := &seen.Services[slices.IndexFunc(seen.Services, func(v corev1.Service) bool { return v.Namespace == row.Namespace && v.Name == row.Name })]
		row.Detail = &Detail{Help: helpForService(*row), Facts: factsOfService(of), Events: lastEvents(seen.Events, "Service", of.Namespace, of.Name)}
	}
}

func factsOfNode(of *corev1.Node) []string {
	var facts []string
	for _, address := range of.Status.Addresses {
		facts = append(facts, fmt.Sprintf("address %s %s", address.Type, address.Address))
	}
	for i := range of.Spec.Taints {
		facts = append(facts, "taint "+of.Spec.Taints[i].ToString())
	}
	if ready := conditionOf(of, corev1.NodeReady); ready != nil {
		facts = append(facts, fmt.Sprintf("condition Ready=%s: %s", ready.Status, ready.Reason))
	}
	return append(append(facts, annotationsOf(of.Annotations)...), names.AnnotationFaults("Node", of.Annotations)...)
}

func factsOfService(of *corev1.Service) []string {
	var facts []string
	for i := range of.Spec.Ports {
		port := &of.Spec.Ports[i]
		facts = append(facts, fmt.Sprintf("port %s/%d, node port %d", port.Protocol, port.Port, port.NodePort))
	}
	facts = append(facts, "external traffic policy "+string(of.Spec.ExternalTrafficPolicy))
	return append(append(facts, annotationsOf(of.Annotations)...), names.AnnotationFaults("Service", of.Annotations)...)
}

// annotationsOf are the annotations that a cloud controller manager may follow. Those of kubectl repeat the object.
func annotationsOf(annotations map[string]string) []string {
	var facts []string
	for key, value := range annotations {
		if key != corev1.LastAppliedConfigAnnotation {
			facts = append(facts, fmt.Sprintf("annotation %s=%s", key, value))
		}
	}
	slices.Sort(facts)
	return facts
}

func lastEvents(all []corev1.Event, kind, namespace, name string) []Event {
	var events []Event
	for i := range all {
		if about := all[i].InvolvedObject; about.Kind == kind && about.Namespace == namespace && about.Name == name {
			events = append(events, Event{timeOf(&all[i]), all[i].Type, all[i].Reason, all[i].Message})
		}
	}
	slices.SortStableFunc(events, func(a, b Event) int { return b.Time.Compare(a.Time) })
	return events[:min(len(events), maxEvents)]
}

// reasonsOf is where the pages explain each reason.
const (
	reasonsOfNodes    = "docs/reference/events-and-conditions.md"
	reasonsOfServices = "docs/reference/events-and-conditions-services.md"
)

// helpForNode is what to do about a node.
func helpForNode(row Node) string {
	reason, _, _ := strings.Cut(row.Why, ":")
	help := map[NodeState]string{
		NodeForeign:       "It is another manager's. If it is not: remove the annotation mooring.dev/ignore, or correct --provider-id-schemes and --node-selector",
		NodeDeleting:      "The controllers of its finalizers have to end their work",
		NodeHeld:          "Look whether the instance exists. If it does not: kubectl annotate node " + row.Name + " mooring.dev/confirm-deletion=true",
		NodeUninitialized: "Look whether a manager runs and leads: mooring check",
		NodeOutOfService:  "When the machine is back: kubectl taint node " + row.Name + " " + corev1.TaintNodeOutOfService + "-",
		NodeShutDown:      "Start the instance; the taint goes when the node is ready",
		NodeWithoutID:     "Run its kubelet with --cloud-provider=external, delete the Node and restart the kubelet",
	}[row.State]
	if row.State == NodeUninitialized {
		help = cmp.Or(map[string]string{
			names.ReasonInstanceNotFound:  "Compare the node's name and provider ID with the names and IDs of instances in the cloud, and the account of the cloud config",
			names.ReasonAmbiguousInstance: "Give each instance a name of its own",
			names.ReasonProviderIDMissing: "Run the kubelet with --provider-id, or update the provider",
			names.ReasonNodeIPMismatch:    "Correct the kubelet's --node-ip: it has to be one of the instance's addresses",
			names.ReasonInvalidMetadata:   "Rename the type, zone or region in the cloud, or update the provider",
			names.ReasonCloudError:        "Correct what the cloud's error says: credentials, endpoint, quota",
			names.ReasonWriteFailed:       "Correct what the API server's error says: permissions, admission policies",
		}[reason], help)
	}
	if row.Denied {
		help = "If the machine was made again under this name: kubectl delete node " + row.Name + ". If its instance exists, correct the account or region"
	}
	if help == "" && row.Routed != nil && !*row.Routed {
		help = "The network does not reach its pods yet: mooring check says which rule fails"
	}
	if help == "" {
		return ""
	}
	return help + " (" + reasonsOfNodes + ")"
}

// helpForService is what to do about a Service.
func helpForService(row Service) string {
	reason, _, _ := strings.Cut(row.Why, ":")
	help := map[ServiceState]string{
		ServiceWithdrawing: "The cloud or its provider has to delete the load balancer; the events say why it does not",
		ServiceUntouched:   "Look whether a manager runs and leads, and whether it serves the class: mooring check",
		ServiceElsewhere:   "Nothing: the provider leaves it to another controller",
		ServiceNotReady: cmp.Or(map[string]string{
			"NoTargets":   "No node may be a target: a node has to be initialized, to have had a network, and not to be excluded by label",
			"NoAddress":   "Look in the cloud why the load balancer has no address",
			"Throttled":   "Raise the quota of the cloud's API, or set --cloud-api-qps",
			"Refused":     "Change the Service as the message says",
			"Drifted":     "Find out what changes the load balancer in the cloud, and stop it",
			"NotFound":    "Wait ten minutes, or change an annotation of the Service to have the load balancer made again at once",
			"WriteFailed": "Correct what the API server's error says: permissions, admission policies",
			"Ensuring":    "Wait: the load balancer is being made",
			"Pending":     "Wait: the load balancer is being made",
		}[reason], "Correct what the message says"),
	}[row.State]
	if help == "" && row.Announced != nil && !*row.Announced {
		help = "Correct what keeps its addresses from being announced"
	}
	if help == "" {
		return ""
	}
	return help + " (" + reasonsOfServices + ")"
}

// Details is a text of what was asked for by name.
func (s Status) Details(style Style) string {
	var out strings.Builder
	for i := range s.Nodes {
		row := &s.Nodes[i]
		title(&out, style, "Node "+row.Name, string(row.State), nodeColors[row.State], s.Time, row.Since)
		field(&out, "why", row.Why)
		field(&out, "provider ID", row.ProviderID)
		field(&out, "type", row.Type)
		field(&out, "zone", row.Zone)
		field(&out, "routed", yesNo(row.Routed).text)
		row.Detail.write(&out, style, s.Time)
	}
	for i := range s.Services {
		row := &s.Services[i]
		title(&out, style, "Service "+row.Namespace+"/"+row.Name, string(row.State), serviceColors[row.State], s.Time, row.Since)
		field(&out, "why", row.Why)
		field(&out, "class", row.Class)
		field(&out, "addresses", strings.Join(row.Addresses, ", "))
		field(&out, "announced", yesNo(row.Announced).text)
		row.Detail.write(&out, style, s.Time)
	}
	out.WriteString(s.Leader.text(s.Time, style))
	for _, unknown := range s.Unknown {
		fmt.Fprintf(&out, "%s %s\n", style.paint("Not known:", yellow), Printable(unknown))
	}
	return out.String()
}

func title(out *strings.Builder, style Style, what, state string, color color, now, since time.Time) {
	fmt.Fprintf(out, "%s: %s", style.paint(Printable(what), bold), style.paint(state, color))
	if lasts := age(now, since); lasts != "" {
		fmt.Fprintf(out, " for %s", lasts)
	}
	out.WriteByte('\n')
}

func field(out *strings.Builder, name, value string) {
	if value != "" {
		fmt.Fprintf(out, "  %-12s %s\n", name, Printable(value))
	}
}

func (d *Detail) write(out *strings.Builder, style Style, now time.Time) {
	if d.Help != "" {
		fmt.Fprintf(out, "  %s %s\n", style.paint(fmt.Sprintf("%-12s", "what helps"), yellow), Printable(d.Help))
	}
	for _, fact := range d.Facts {
		kind, value, _ := strings.Cut(fact, " ")
		field(out, kind, value)
	}
	for _, event := range d.Events {
		field(out, "event", fmt.Sprintf("%s ago, %s %s: %s", cmp.Or(age(now, event.Time), "0s"), event.Type, event.Reason, event.Message))
	}
	out.WriteByte('\n')
}
