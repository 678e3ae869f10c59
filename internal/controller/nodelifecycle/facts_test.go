package nodelifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/mooring-ccm/mooring/provider"
)

var (
	birth = time.Date(2012, 1, 1, 0, 0, 0, 0, time.UTC)
	today = time.Date(2015, 1, 1, 12, 0, 0, 0, time.UTC)
)

func testSettings() Settings {
	return Settings{
		Confirmations: 2, MinAge: 2 * time.Minute,
		Limit: Limit{Percent: 25}, Window: 10 * time.Minute,
	}
}

type edit = func(*corev1.Node)

// node returns a node that was created long ago and has a provider ID. Its readiness is as given; with "" it has none.
func node(name string, ready corev1.ConditionStatus, edits ...edit) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(birth)},
		Spec:       corev1.NodeSpec{ProviderID: "sim://" + name},
	}
	if ready != "" {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: metav1.NewTime(birth)}}
	}
	for _, edit := range edits {
		edit(n)
	}
	return n
}

func withTaint(key, value string, effect corev1.TaintEffect) edit {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: effect})
	}
}

func shutdownTainted(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, shutdownTaint())
}

func uninitialized(n *corev1.Node) {
	n.Spec.ProviderID = ""
	initializing(n)
}

func initializing(n *corev1.Node) {
	withTaint(cloudproviderapi.TaintExternalCloudProvider, "true", corev1.TaintEffectNoSchedule)(n)
}

func createdAgo(age time.Duration) edit {
	return func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(today.Add(-age)) }
}

func reportedAgo(age time.Duration) edit {
	return func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(today.Add(-age)) }
}

func annotated(value string) edit {
	return func(n *corev1.Node) { n.Annotations = map[string]string{AnnotationConfirmDeletion: value} }
}

func showing(reason HoldReason) edit {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: ConditionInstanceGone, Status: corev1.ConditionTrue, Reason: string(reason),
		})
	}
}

func beingDeleted(n *corev1.Node) {
	now := metav1.NewTime(today)
	n.DeletionTimestamp = &now
}

// mine returns the facts of a node that is ours, or awaited if it waits without a provider ID.
func mine(n *corev1.Node) facts {
	if n.Spec.ProviderID == "" {
		return factsOf(n, awaited)
	}
	return factsOf(n, ours)
}

// saying is something that is said in one observation.
type saying = func(answers, time.Time)

func gone(names ...string) saying {
	return func(said answers, at time.Time) {
		for _, name := range names {
			said[types.UID("uid-"+name)] = answer{at: at}
		}
	}
}

func there(state provider.InstanceState, names ...string) saying {
	return func(said answers, at time.Time) {
		for _, name := range names {
			said[types.UID("uid-"+name)] = answer{exists: true, state: state, listed: true, at: at}
		}
	}
}

func saidAt(at time.Time, sayings ...saying) answers {
	said := answers{}
	for _, say := range sayings {
		say(said, at)
	}
	return said
}
