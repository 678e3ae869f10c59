package nodelifecycle

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/mooring-ccm/mooring/internal/instances/ownership"
	"github.com/mooring-ccm/mooring/internal/names"
	"github.com/mooring-ccm/mooring/provider"
)

const (
	// ConditionInstanceGone on a Node says that the cloud denies its instance, and that the node is nevertheless kept.
	ConditionInstanceGone = names.ConditionInstanceGone
	// AnnotationConfirmDeletion on a Node is an operator's word that its instance is gone: the node's UID, or "true".
	AnnotationConfirmDeletion = "mooring.dev/confirm-deletion"
)

// Taints by which Karpenter announces that it removes a node.
const (
	taintKarpenter     = "karpenter.sh/disrupted"
	taintKarpenterBeta = "karpenter.sh/disruption" // before Karpenter 1.0
)

// reportInterval is longer than a kubelet that lives lets pass between two reports of its status: nodeStatusReportFrequency,
// 5 minutes by default, with room for a busy API server.
const reportInterval = 10 * time.Minute

// maxWitnesses is how many ready nodes are asked for where the cloud cannot list, to see whether it affirms others.
const maxWitnesses = 3

// Settings are what the operator decides.
type Settings struct {
	// Confirmations is how often, in distinct observations, the cloud has to deny an instance before its node is deleted.
	Confirmations int
	// MinAge is how old a node has to be that waits for its initialization before the cloud is asked whether it has an instance for it.
	MinAge time.Duration
	// MinDenialTime is how much time has to pass from the first to the last of the observations that deny an instance. It does not
	// apply to removals that were announced or acknowledged.
	MinDenialTime time.Duration
	// Limit is how many nodes may be deleted within any Window.
	Limit Limit
	// Window is the time over which deletions are counted.
	Window time.Duration
}

// applyTime is how long after it was planned a deletion may begin.
func (s Settings) applyTime() time.Duration { return s.Window / 10 }

// Limit is a number of nodes, or a share of all that are ours. The zero value allows no node.
type Limit struct {
	// Count is the number of nodes. It is not used if Percent is set.
	Count int
	// Percent is the share, and minLimit nodes if that is more; 100 or more is no limit.
	Percent int
}

// minLimit is how many nodes any share allows, if they are not more than half of all: of a small cluster, a share would be nothing.
const minLimit = 10

// Off reports whether the limit allows everything.
func (l Limit) Off() bool { return l.Percent >= 100 }

// of returns how many of a number of nodes the limit allows.
func (l Limit) of(population int) int {
	if l.Percent == 0 {
		return l.Count
	}
	share := population * l.Percent / 100
	return min(max(minLimit, share), max(population/2, share))
}

// population is how many nodes a limit is a share of.
func population(nodes []facts) int {
	count := 0
	for _, node := range nodes {
		if node.owner != foreign {
			count++
		}
	}
	return count
}

// spending is a number of deletions that were begun together.
type spending struct {
	At    time.Time `json:"at"`
	Count int       `json:"count"`
}

// recent returns the deletions that still count, none of them from the future: the clock may have been put back. A deletion may happen
// up to applyTime after it was planned, so it counts for that much longer than the window.
func recent(spent []spending, settings Settings, now time.Time) []spending {
	counts := settings.Window + settings.applyTime()
	return slices.DeleteFunc(notAfter(spent, now), func(s spending) bool { return now.Sub(s.At) >= counts })
}

// notAfter returns deletions none of which is later than a time.
func notAfter(spent []spending, now time.Time) []spending {
	current := slices.Clone(spent)
	for i := range current {
		if current[i].At.After(now) {
			current[i].At = now
		}
	}
	return current
}

func total(spent []spending) int {
	count := 0
	for _, s := range spent {
		count += s.Count
	}
	return count
}

// owner is what a node is to us.
type owner int

const (
	// foreign nodes are neither asked for nor written, and those count as foreign whose owner is not known.
	foreign owner = iota
	// awaited nodes wait for their initialization and have no provider ID. They may be asked for, and deleted.
	awaited
	// ours are proven to be.
	ours
)

// facts are what matters of a Node.
type facts struct {
	uid             types.UID
	name            string
	resourceVersion string
	providerID      string
	owner           owner
	created         time.Time
	// ready is what the kubelet says of itself, and reportedAt when it last did; zero if its silence has been noticed.
	ready      bool
	reportedAt time.Time
	// heartbeat is what we have seen of the reports of a kubelet that is not ready.
	heartbeat heartbeat
	// excluded nodes are not acted on: they are being deleted, or the cache has not caught up with what we did to them.
	excluded bool
	// paused are the kinds of action that failed a short while ago, and are left out for now.
	paused pauses
	// announced says that another controller or a user is removing the node. acknowledged says that an operator knows that its instance is gone.
	announced, acknowledged bool
	taints                  []corev1.Taint
	// heldFor is the reason of the condition CloudInstanceGone that the node shows, empty if it shows none.
	heldFor HoldReason
	// released is why it was held when that condition was removed a short while ago. A node without the condition does not show that reason again
	// yet: a cloud whose replicas differ would have it written and removed with every other answer.
	released HoldReason
}

// pauses are kinds of action that are left out.
type pauses [deleteNode + 1]bool

// heartbeat is the last report of a kubelet, as its node shows it.
type heartbeat struct {
	// reportedAt is the kubelet's time of the report.
	reportedAt time.Time
	// at is when we first saw it, by our clock, and changed says that we had seen another one before.
	at      time.Time
	changed bool
}

// factsOf reads what matters off a node.
func factsOf(node *corev1.Node, owner owner) facts {
	f := facts{
		uid: node.UID, name: node.Name, resourceVersion: node.ResourceVersion, providerID: node.Spec.ProviderID,
		owner: owner, created: node.CreationTimestamp.Time, taints: node.Spec.Taints,
		excluded: !node.DeletionTimestamp.IsZero(),
	}
	if _, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); ready != nil {
		f.ready = ready.Status == corev1.ConditionTrue
		if ready.Status != corev1.ConditionUnknown {
			f.reportedAt = ready.LastHeartbeatTime.Time
		}
	}
	if _, held := nodeutil.GetNodeCondition(&node.Status, ConditionInstanceGone); held != nil {
		f.heldFor = cmp.Or(HoldReason(held.Reason), "Unspecified") // not ours to leave out, but a condition that is there has to go again
	}
	f.announced = f.excluded || slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == names.TaintToBeDeleted || taint.Key == taintKarpenter || taint.Key == taintKarpenterBeta
	})
	confirmed := node.Annotations[AnnotationConfirmDeletion]
	if confirmed != "" {
		word, err := strconv.ParseBool(confirmed)
		f.acknowledged = types.UID(confirmed) == node.UID || err == nil && word
	}
	return f
}

// isDirty reports whether a pass could do anything about a node, whatever the cloud says. A node that is ready needs nothing but
// to be rid of what was put on it while it was not.
func isDirty(node *corev1.Node) bool {
	_, held := nodeutil.GetNodeCondition(&node.Status, ConditionInstanceGone)
	return held != nil || !ownership.Ready(node) || slices.ContainsFunc(node.Spec.Taints, isShutdownTaint)
}

// shutdownTaint is the reference's: see cloudproviderapi.TaintNodeShutdown.
func shutdownTaint() corev1.Taint {
	return corev1.Taint{Key: cloudproviderapi.TaintNodeShutdown, Effect: corev1.TaintEffectNoSchedule}
}

// isShutdownTaint compares key and effect, by which Kubernetes distinguishes taints.
func isShutdownTaint(taint corev1.Taint) bool {
	want := shutdownTaint()
	return taint.MatchTaint(&want)
}

// alive reports whether a node's kubelet runs, and so its machine: it is ready, or it says that it is not. Its clock may be wrong, and
// so may ours, so a report which we have seen change says more than its time. Whose silence was noticed by
// kube-controller-manager, which reads the kubelets' Leases, is not alive. A report that we see for the first time is taken for silence if it is older
// by as much as clocks may be apart. See ADR 25.
func (f facts) alive(now time.Time) bool {
	switch {
	case f.ready || f.reportedAt.IsZero():
		return f.ready
	case !f.heartbeat.at.IsZero() && now.Sub(f.heartbeat.at) >= reportInterval:
		return false
	default:
		seen := now
		if !f.heartbeat.at.IsZero() {
			seen = f.heartbeat.at
		}
		return f.heartbeat.changed || seen.Sub(f.reportedAt) < reportInterval*3/2
	}
}

func (f facts) hasShutdownTaint() bool { return slices.ContainsFunc(f.taints, isShutdownTaint) }

func (f facts) uninitialized() bool {
	return slices.ContainsFunc(f.taints, func(taint corev1.Taint) bool { return taint.Key == cloudproviderapi.TaintExternalCloudProvider })
}

// due reports whether the cloud is to be asked about a node. What a ready node is, its kubelet says. A node that waits for its
// initialization may be one that the cloud does not show yet, and while it is young the node controller asks for it; and one that
// waits without a provider ID and whose kubelet lives has a machine, whatever the cloud says of its name. See ADR 22.
func (f facts) due(settings Settings, now time.Time) bool {
	switch {
	case f.owner == foreign || f.excluded || f.ready:
		return false
	case f.uninitialized() && now.Sub(f.created) < settings.MinAge:
		return false
	default:
		return f.owner == ours || !f.alive(now)
	}
}

// answer is the cloud's answer about a node's instance. A node has no answer if the lookup failed, or left the question open.
type answer struct {
	// exists says whether there is such an instance, and state whether it runs.
	exists bool
	state  provider.InstanceState
	// listed says that the answer comes from a list or watch, which the provider declares to show states.
	listed bool
	// witness says that the node was ready when it was asked for: of its silence the answer says nothing.
	witness bool
	// at is when the observation began that said so. All answers of one listing have the same time.
	at time.Time
}

// answers are what was said in one pass, by the nodes' UIDs.
type answers map[types.UID]answer

// witnesses returns the nodes to ask for where the cloud cannot list, when a denial lacks nothing but the affirmation of another instance: the
// nodes that are ready, and so must exist.
func witnesses(nodes []facts) []facts {
	return slices.DeleteFunc(slices.Clone(nodes), func(node facts) bool { return !node.canWitness() })
}

func (f facts) canWitness() bool { return f.owner == ours && f.ready && !f.announced && !f.excluded }

// byName returns the nodes in the order of their names.
func byName(nodes []facts) []facts {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b facts) int { return strings.Compare(a.name, b.name) })
	return nodes
}

// spread returns a few of the witnesses; always the same ones, whatever their order. They are spread over the names:
// neighbors are often of one rack or group, which may have gone as a whole while their nodes still seem to be ready.
func spread(witnesses []facts) []facts {
	witnesses = byName(witnesses)
	if len(witnesses) <= maxWitnesses {
		return witnesses
	}
	chosen := make([]facts, maxWitnesses)
	for i := range chosen {
		chosen[i] = witnesses[i*(len(witnesses)-1)/(maxWitnesses-1)]
	}
	return chosen
}

// existence is whether a node has an instance.
type existence int

const (
	unsaid existence = iota
	present
	denied
)

// desired is what a node shall be, as far as it was said.
type desired struct {
	existence existence
	// tainted says whether the node shall have the shutdown taint; nil leaves it as it is.
	tainted *bool
}

// desire returns what a node shall be. A ready node's instance exists and runs without the cloud saying so. Of an instance
// whose state the cloud does not know, the taint says nothing. That an instance runs again says its kubelet: an answer to a single question
// only sets the taint, because replicas of a cloud's API may answer in turns.
func desire(node facts, said answers) desired {
	yes, no := true, false
	answer, known := said[node.uid]
	switch {
	case node.owner == foreign || node.excluded:
		return desired{}
	case node.ready:
		return desired{existence: present, tainted: &no}
	case !known:
		return desired{}
	case !answer.exists:
		return desired{existence: denied}
	case answer.state == provider.InstanceStopped:
		return desired{existence: present, tainted: &yes}
	case answer.state == provider.InstanceRunning && answer.listed:
		return desired{existence: present, tainted: &no}
	default:
		return desired{existence: present}
	}
}

// doubtOf returns why the cloud cannot be believed when it denies instances, or nothing. It must not deny nodes that are alive: a few
// may have lost their instances a moment ago, but not a greater share than may be deleted, nor more than half. A node whose end was
// announced, or acknowledged and is not ready, is no evidence against the cloud: it will be deleted, and what is decided about the
// others must not depend on whether that has happened yet.
func doubtOf(nodes []facts, said answers, settings Settings, now time.Time) HoldReason {
	known, running, deniedRunning, readyAsked := 0, 0, 0, false
	for _, node := range nodes {
		answer, asked := said[node.uid]
		if !asked {
			continue
		}
		if answer.exists {
			known++
		}
		readyAsked = readyAsked || node.ready
		if going := node.announced || node.acknowledged && !node.ready; node.alive(now) && !going {
			running++
			if !answer.exists {
				deniedRunning++
			}
		}
	}
	tolerated := min(max(minLimit, settings.Limit.of(running)), running/2)
	switch {
	case deniedRunning <= tolerated, known == 0 && !readyAsked: // which the affirmation of a ready node will show
		return ""
	case known == 0:
		return HoldEveryInstanceGone
	default:
		return HoldRunningNodesDenied
	}
}

// noKubeletReports reports whether no kubelet reports that could confirm it: all nodes are silent, or are being removed. See ADR 27.
func noKubeletReports(nodes []facts, now time.Time) bool {
	return !slices.ContainsFunc(nodes, func(node facts) bool {
		return node.owner != foreign && node.alive(now) && !node.announced
	})
}
