package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/managers"
	"github.com/mooring-ccm/mooring/cmd/mooring/internal/view"
	"github.com/mooring-ccm/mooring/internal/tool/words"
)

// pods looks whether the manager's pods run, and are of one version.
func pods(seen *Observation) answer {
	if reasons := unread(seen.Workloads.Unread, seen.Pods.Unread); len(reasons) > 0 {
		return answer{unknown: reasons}
	}
	own := seen.Own()
	if len(own) == 0 {
		return answer{absent: true, note: fmt.Sprintf("no Deployment, DaemonSet or static pod has the lease %s/%s: the manager runs outside of the cluster, "+
			"is not installed, or has another lease (--lease)", seen.Namespace, seen.Lease)}
	}
	var said answer
	var notes []string
	for _, workload := range own {
		notes = append(notes, fmt.Sprintf("%s: %d of %d ready", workload, workload.Ready, workload.Wanted))
		if workload.Wanted == 0 {
			said.findings = append(said.findings, Finding{
				Severity: Warning, Seen: workload.String() + " wants no pods", Objects: []string{workload.String()},
				Do: "scale it up, or let its DaemonSet select nodes",
			})
		}
	}
	said.note = strings.Join(notes, ", ")
	said.findings = append(said.findings, podFindings(seen)...)
	if len(said.findings) == 0 {
		said.findings = unready(own)
	}
	return said
}

// unready finds workloads whose pods are not ready although nothing is wrong with any that there is: they may never have been created.
func unready(own []Workload) []Finding {
	var findings []Finding
	for _, workload := range own {
		if workload.Ready >= workload.Wanted {
			continue
		}
		finding := Finding{
			Severity: Warning, Seen: fmt.Sprintf("%s has %d of %d pods ready", workload, workload.Ready, workload.Wanted), Objects: []string{workload.String()},
			Do: fmt.Sprintf("read kubectl -n %s describe %s %s: its events say why pods are not created, and the pods' own why they are not ready",
				workload.Namespace, strings.ToLower(workload.Kind), workload.Name),
		}
		if workload.Ready == 0 {
			finding.Severity = Error
		}
		findings = append(findings, finding)
	}
	return findings
}

// podFindings looks at each pod, and whether they run one image.
func podFindings(seen *Observation) []Finding {
	var findings []Finding
	images := map[string][]string{}
	for i := range seen.Pods.Value {
		pod := &seen.Pods.Value[i]
		container := managers.Container(&pod.Spec)
		if container == nil || !seen.isOwn(pod) {
			continue
		}
		images[container.Image] = append(images[container.Image], pod.Name)
		if finding, bad := podFinding(pod, seen); bad {
			findings = append(findings, finding)
		}
	}
	if len(images) > 1 {
		var parts []string
		for image, of := range images {
			parts = append(parts, image+" ("+strings.Join(of, ", ")+")")
		}
		slices.Sort(parts)
		findings = append(findings, Finding{
			Severity: Warning, Seen: "replicas run different images: " + strings.Join(parts, "; "),
			Do: "wait for the rollout, or look why it does not end: kubectl rollout status",
		})
	}
	return findings
}

// isOwn reports whether a pod elects its leader by the observed lease.
func (o *Observation) isOwn(pod *corev1.Pod) bool {
	container := managers.Container(&pod.Spec)
	if container == nil {
		return false
	}
	flags := managers.FlagsOf(container)
	namespace, lease := flags.Lease()
	return namespace == o.Namespace && lease == o.Lease && !flags.Is("dry-run")
}

// podFinding says why a pod does not run.
func podFinding(pod *corev1.Pod, seen *Observation) (Finding, bool) {
	finding := Finding{Severity: Error, Objects: []string{pod.Namespace + "/" + pod.Name}}
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		waiting := status.State.Waiting
		switch {
		case waiting == nil:
			continue
		case slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}, waiting.Reason):
			finding.Seen = fmt.Sprintf("the image %q cannot be pulled: %s", status.Image, because(waiting.Reason, waiting.Message))
			finding.Do = "look at the image's name and tag, at imagePullSecrets, and whether the node reaches the registry"
			return finding, true
		case waiting.Reason == "CrashLoopBackOff" || waiting.Reason == "CreateContainerConfigError" || waiting.Reason == "CreateContainerError":
			finding.Seen = because(waiting.Reason, waiting.Message)
			if last := status.LastTerminationState.Terminated; last != nil {
				finding.Seen += fmt.Sprintf("; it ended with exit code %d: %s", last.ExitCode, cmp.Or(last.Message, last.Reason))
			}
			finding.Do = fmt.Sprintf("read the last line of kubectl -n %s logs --previous %s: it says what to do", pod.Namespace, pod.Name)
			return finding, true
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && seen.Now.Sub(condition.LastTransitionTime.Time) > patience {
			finding.Severity, finding.Seen = Warning, because(condition.Reason, condition.Message)
			finding.Do = "label a control-plane node, free its port, or wish for fewer replicas: one of each node at most"
			return finding, true
		}
	}
	return finding, false
}

func because(reason, message string) string { return strings.TrimSuffix(reason+": "+message, ": ") }

// leader looks for a replica that leads.
func leader(seen *Observation) answer {
	if seen.Leases.Unread != "" {
		return answer{unknown: []string{seen.Leases.Unread}}
	}
	name, found := seen.Namespace+"/"+seen.Lease, (*coordinationv1.Lease)(nil)
	for i := range seen.Leases.Value {
		if seen.Leases.Value[i].Name == seen.Lease {
			found = &seen.Leases.Value[i]
		}
	}
	wrong := func(format string, args ...any) answer {
		return answer{findings: []Finding{{
			Severity: Error, Seen: fmt.Sprintf(format, args...), Objects: []string{"Lease " + name},
			Do: "start the manager, or read the log of its pods; if it has another lease, name that by --lease",
		}}}
	}
	if found == nil {
		return wrong("there is no Lease %s: no manager has ever led", name)
	}
	leader := view.Of(view.Seen{Now: seen.Now, Lease: found}).Leader
	switch {
	case leader.Holder == "":
		return wrong("the lease was released, and no replica has taken it")
	case leader.Expired:
		return wrong("%s has not renewed the lease since %s", leader.Holder, leader.Renewed.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	said := answer{note: leader.Holder + " since " + leader.Since.UTC().Format("2006-01-02 15:04:05 MST")}
	if ahead := leader.Renewed.Sub(seen.Now); ahead > skew {
		said.findings = []Finding{{
			Severity: Warning, Seen: fmt.Sprintf("the lease was renewed %s from now: the clock of the leader's machine, or of this one, is wrong", ahead.Round(skew)),
			Do: "let both keep time by NTP: a lease is as good as the clocks", Objects: []string{"Lease " + name},
		}}
	}
	return said
}

// rights reports what the manager may not do.
func rights(seen *Observation) answer {
	if reasons := unread(seen.Workloads.Unread, seen.Rights.Unread); len(reasons) > 0 {
		return answer{unknown: reasons}
	}
	if len(seen.Rights.Value) == 0 {
		return answer{absent: true, note: "the manager's ServiceAccount is not known: no workload of it was found"}
	}
	said := answer{note: fmt.Sprintf("%s has all %d", seen.Rights.Value[0].Account, len(seen.Rights.Value))}
	for _, right := range seen.Rights.Value {
		if right.Allowed {
			continue
		}
		finding := Finding{
			Severity: Error, Seen: fmt.Sprintf("ServiceAccount %s may not %s", right.Account, right), Objects: []string{right.String()},
			Do: "apply deploy/rbac.yaml, or the chart's roles, of the version that runs",
		}
		if right.Optional != "" {
			finding.Severity, finding.Seen = Warning, finding.Seen+": "+right.Optional
		}
		said.findings = append(said.findings, finding)
	}
	return said
}

// otherManagers looks for other cloud controller managers that do the same work.
func otherManagers(seen *Observation) answer {
	said := answer{unknown: unread(seen.Workloads.Unread, seen.Leases.Unread, seen.Nodes.Unread), note: "none seen"}
	shared := len(seen.schemes()) > 0 || seen.flags()["node-selector"] != ""
	severity := Error
	if shared {
		severity = Warning
	}
	for _, other := range seen.others() {
		if other.Wanted == 0 {
			continue
		}
		said.findings = append(said.findings, Finding{
			Severity: severity, Objects: []string{other.String()},
			Seen: fmt.Sprintf("%s runs %s, with the cloud provider %q, and does not elect its leader by the same lease", other, other.Image, other.Flags["cloud-provider"]),
			Do:   "remove it, or divide the nodes between both by --node-selector and --provider-id-schemes (docs/how-to/several-ccms.md)",
		})
	}
	if own := seen.Own(); len(own) > 1 {
		var names []string
		for _, workload := range own {
			names = append(names, workload.String())
		}
		said.findings = append(said.findings, Finding{
			Severity: Warning, Objects: names, Seen: "workloads take turns at leading, by one lease: " + strings.Join(names, ", "),
			Do: "keep one of them, unless you are in the middle of a migration",
		})
	}
	said.findings = append(said.findings, otherLeases(seen, severity)...)
	said.findings = append(said.findings, otherWriters(seen)...)
	return said
}

// otherLeases finds leases of managers that run outside of the cluster.
func otherLeases(seen *Observation, severity State) []Finding {
	known := map[string]bool{seen.Lease: true}
	for _, workload := range seen.Workloads.Value {
		if namespace, lease := workload.Flags.Lease(); namespace == seen.Namespace {
			known[lease] = true
		}
	}
	var findings []Finding
	for i := range seen.Leases.Value {
		lease := &seen.Leases.Value[i]
		held := view.Of(view.Seen{Now: seen.Now, Lease: lease}).Leader
		if known[lease.Name] || !ofManager(lease) || held.Holder == "" || held.Expired || lease.Spec.RenewTime == nil ||
			ptr.Deref(lease.Spec.LeaseDurationSeconds, 0) == 0 || strings.HasSuffix(lease.Name, "-node-deletions") || strings.HasSuffix(lease.Name, "-load-balancers") {
			continue
		}
		findings = append(findings, Finding{
			Severity: severity, Objects: []string{"Lease " + lease.Namespace + "/" + lease.Name},
			Seen: fmt.Sprintf("%s holds the Lease %s/%s: another manager leads", held.Holder, lease.Namespace, lease.Name),
			Do:   "stop it, or divide the nodes between both (docs/how-to/several-ccms.md)",
		})
	}
	return findings
}

// ofManager reports whether a Lease is a cloud controller manager's: by its name, or by the program that writes it.
func ofManager(lease *coordinationv1.Lease) bool {
	return strings.Contains(lease.Name, managers.DefaultLease) || slices.ContainsFunc(lease.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return strings.Contains(entry.Manager, managers.DefaultLease)
	})
}

// otherWriters finds cloud controller managers of other names among the recent writers of nodes.
func otherWriters(seen *Observation) []Finding {
	nodes := map[string][]string{}
	for i := range seen.Nodes.Value {
		node := &seen.Nodes.Value[i]
		for _, entry := range node.ManagedFields {
			if entry.Manager != managers.DefaultLease && strings.Contains(entry.Manager, managers.DefaultLease) && entry.Time != nil &&
				seen.Now.Sub(entry.Time.Time) < recently && !slices.Contains(nodes[entry.Manager], node.Name) {
				nodes[entry.Manager] = append(nodes[entry.Manager], node.Name)
			}
		}
	}
	var findings []Finding
	for writer, of := range nodes {
		findings = append(findings, Finding{
			Severity: Warning, Objects: of,
			Seen: fmt.Sprintf("%q has written %s within %s", writer, words.Count(len(of), "node", "nodes"), recently),
			Do:   "if it was stopped since, this ends by itself; otherwise stop it, or divide the nodes between both (docs/how-to/several-ccms.md)",
		})
	}
	slices.SortFunc(findings, func(a, b Finding) int { return cmp.Compare(a.Seen, b.Seen) })
	return findings
}
