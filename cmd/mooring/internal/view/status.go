package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Seen is what was read of a cluster and its manager.
type Seen struct {
	// Now is when.
	Now time.Time
	// Lease is that by which the manager's replicas elect their leader; NoLease says that there is none. Without either, it is not
	// known.
	Lease   *coordinationv1.Lease
	NoLease bool
	// Nodes and Services are all of the cluster; nil if they are not known.
	Nodes    []corev1.Node
	Services []corev1.Service
	// Events are those about nodes, Services and the cloud config.
	Events []corev1.Event
	// Schemes are those of the provider IDs that are the manager's own; empty if they are not known.
	Schemes []string
	// Metrics are what a replica serves at /metrics, nil if none was asked, and Before what it served Interval before that.
	Metrics, Before map[string]*dto.MetricFamily
	Interval        time.Duration
	// Unknown says in words what could not be read, and why.
	Unknown []string
}

// Status is what a cluster's nodes and load balancers are to its cloud controller manager, and how that is.
type Status struct {
	// Time is when it was looked at.
	Time time.Time `json:"time"`
	// Leader is nil if it is not known, and Manager if none was asked.
	Leader  *Leader  `json:"leader,omitempty"`
	Manager *Manager `json:"manager,omitempty"`
	// Refusals are cloud configs that replicas have not taken.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Nodes and Services are nil if they are not known.
	Nodes    []Node    `json:"nodes"`
	Services []Service `json:"services"`
	// Sessions are the BGP sessions of the provider metal on the replica that was asked. Sessions that are down come first.
	Sessions []Session `json:"sessions,omitempty"`
	// Problems concern the whole cluster, the gravest first: addresses that are announced to no router.
	Problems []string `json:"problems,omitempty"`
	// Unknown says what could not be read, and why.
	Unknown []string `json:"unknown,omitempty"`
}

// Leader is who holds the lease.
type Leader struct {
	// Holder is the identity of the replica; empty if the lease was released.
	Holder string `json:"holder"`
	// Since is when it got the lease, Renewed when it last showed that it lives.
	Since   time.Time `json:"since,omitzero"`
	Renewed time.Time `json:"renewed,omitzero"`
	// NoLease says that there is no lease: no manager has ever led that elects its leader by it.
	NoLease bool `json:"noLease,omitempty"`
	// Expired says that it has not for longer than the lease lasts: no replica leads.
	Expired bool `json:"expired,omitempty"`
}

// Of returns the status that was seen.
func Of(seen Seen) Status {
	status := Status{
		Time: seen.Now, Leader: leaderOf(seen), Refusals: refusalsOf(seen), Nodes: nodesOf(seen), Services: servicesOf(seen), Unknown: seen.Unknown,
	}
	if seen.Metrics != nil {
		status.Manager, status.Sessions = managerOf(seen), sessionsOf(seen)
	}
	status.Problems = announcementProblems(status.Sessions, status.Services)
	return status
}

func leaderOf(seen Seen) *Leader {
	lease := seen.Lease
	switch {
	case seen.NoLease:
		return &Leader{NoLease: true}
	case lease == nil:
		return nil
	}
	leader := &Leader{Holder: ptr.Deref(lease.Spec.HolderIdentity, "")}
	if lease.Spec.AcquireTime != nil {
		leader.Since = lease.Spec.AcquireTime.Time
	}
	if lease.Spec.RenewTime != nil {
		leader.Renewed = lease.Spec.RenewTime.Time
		lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
		leader.Expired = leader.Holder != "" && seen.Now.Sub(leader.Renewed) > lasts
	}
	return leader
}

// latest returns the newest event about an object with one of the reasons. Some write events about nodes with the node's name in
// the place of its UID.
func latest(events []corev1.Event, kind, namespace, name string, uid string, reasons ...string) *corev1.Event {
	var newest *corev1.Event
	for i := range events {
		event := &events[i]
		about := event.InvolvedObject
		if about.Kind != kind || about.Namespace != namespace || about.Name != name || !slices.Contains(reasons, event.Reason) ||
			about.UID != "" && string(about.UID) != uid && string(about.UID) != name {
			continue
		}
		if newest == nil || timeOf(event).After(timeOf(newest)) {
			newest = event
		}
	}
	return newest
}

// timeOf is when an event last happened, in whichever of its fields its writer has put that.
func timeOf(event *corev1.Event) time.Time {
	if event.Series != nil && !event.Series.LastObservedTime.IsZero() {
		return event.Series.LastObservedTime.Time
	}
	if !event.LastTimestamp.IsZero() {
		return event.LastTimestamp.Time
	}
	return cmp.Or(event.EventTime.Time, event.CreationTimestamp.Time)
}

// because is a reason with its message.
func because(reason, message string) string {
	return strings.TrimSuffix(reason+": "+message, ": ")
}

// Text is the status for people.
func (s Status) Text(style Style) string {
	var out strings.Builder
	for _, problem := range s.Problems {
		fmt.Fprintf(&out, "%s\n", style.paint("Problem: "+problem, red))
	}
	out.WriteString(s.Leader.text(s.Time, style))
	writeRefusals(&out, style, s.Time, s.Refusals)
	if s.Manager != nil {
		s.Manager.write(&out, style, s.Time)
	}
	writeSessions(&out, style, s.Time, s.Sessions)
	nodes := tally(s.Nodes, func(n Node) string { return string(n.State) })
	fmt.Fprintf(&out, "\n%s\n", style.paint("Nodes: "+nodes, bold))
	rows, left := shown(style, s.Nodes, s.NodeProblems(), "nodes")
	if left != "" {
		writeZones(&out, style, s.Zones())
		out.WriteByte('\n')
	}
	if len(rows) > 0 {
		writeNodes(&out, style, s.Time, rows)
	}
	out.WriteString(left)
	services := tally(s.Services, func(s Service) string { return string(s.State) })
	fmt.Fprintf(&out, "\n%s\n", style.paint("Load balancers: "+services, bold))
	balanced, left := shown(style, s.Services, s.ServiceProblems(), "Services")
	if len(balanced) > 0 {
		writeServices(&out, style, s.Time, balanced)
	}
	out.WriteString(left)
	for _, unknown := range s.Unknown {
		fmt.Fprintf(&out, "\n%s %s\n", style.paint("Not known:", yellow), Printable(unknown))
	}
	return out.String()
}

func (l *Leader) text(now time.Time, style Style) string {
	switch {
	case l == nil:
		return "Leader: not known\n"
	case l.NoLease:
		return style.paint("Leader: none, there is no such lease; --lease names another", red) + "\n"
	case l.Holder == "":
		return style.paint("Leader: none, the lease was released", red) + "\n"
	case l.Expired:
		text := fmt.Sprintf("Leader: none, %s has not renewed the lease for %s", Printable(l.Holder), age(now, l.Renewed))
		return style.paint(text, red) + "\n"
	default:
		return fmt.Sprintf("Leader: %s for %s, renewed %s ago\n", Printable(l.Holder), age(now, l.Since), age(now, l.Renewed))
	}
}

// tally counts elements by what they are, in the order of the words. Nil is not known.
func tally[T any](all []T, of func(T) string) string {
	switch {
	case all == nil:
		return "not known"
	case len(all) == 0:
		return "none"
	}
	counts := map[string]int{}
	var words []string
	for _, one := range all {
		if word := of(one); counts[word] == 0 {
			words = append(words, word)
		}
		counts[of(one)]++
	}
	slices.Sort(words)
	for i, word := range words {
		words[i] = fmt.Sprintf("%d %s", counts[word], word)
	}
	return strings.Join(words, ", ")
}
