package servingcertificate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// maxWaiting is how many of the requests of one requester are looked at, the newest first: a kubelet waits for its last one, and makes a
// new one in a quarter of an hour. Those beyond stay pending, until kube-controller-manager deletes them after a day.
const maxWaiting = 10

// reconciler makes one pass over the requests of a requester.
type reconciler struct {
	reader    client.Reader
	instances ccm.Instances
	answers   *answers
	policy    policy
	state     *state
	writer    writer
	metrics   *metrics
}

// Reconcile looks at all requests of a requester, by the name of its user.
func (r *reconciler) Reconcile(ctx context.Context, of reconcile.Request) (reconcile.Result, error) {
	requester := of.Name
	waiting, approvals, err := r.requestsOf(ctx, requester)
	if err != nil {
		return reconcile.Result{}, err
	}
	if waiting = r.state.undecided(requester, waiting); len(waiting) == 0 {
		r.state.forget(requester, approvals)
		r.answers.forget(requester)
		r.metrics.waits(requester, nil)
		return reconcile.Result{}, nil
	}
	now := time.Now()
	remembered := r.state.observe(requester, waiting, now)
	maps.Copy(approvals, remembered.approved)
	requests := make([]request, 0, len(waiting))
	for _, object := range waiting {
		requests = append(requests, read(object))
	}
	known, err := r.observe(ctx, requester, requests, remembered)
	if err != nil {
		return reconcile.Result{}, err
	}
	known.approved = slices.Collect(maps.Values(approvals))
	decisions := planFor(requests, known, r.policy, now)
	failed := r.carryOut(ctx, requester, waiting, decisions)
	r.metrics.waits(requester, decisions)
	if slices.ContainsFunc(decisions, func(d decision) bool { return d.ask }) {
		r.state.insist(requester, now)
		remembered.since, remembered.insists = now, true
		if known, err = r.observe(ctx, requester, requests, remembered); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: r.pause(requester, decisions, known.asking, failed, now)}, nil
}

// carryOut approves and denies, and returns an error of a write that has to be tried again.
func (r *reconciler) carryOut(ctx context.Context, requester string, waiting []*certificatesv1.CertificateSigningRequest, decisions []decision) (failed error) {
	for i, decided := range decisions {
		outcome, err := r.writer.apply(ctx, waiting[i], decided)
		if outcome == kit.Written && decided.kind == approve {
			r.state.approved(requester, waiting[i].UID, time.Now())
		}
		if outcome.Failed() {
			failed = err
		}
	}
	return failed
}

// pause returns how long to wait until the requests are looked at again if nothing changes. Zero: only if something changes.
func (r *reconciler) pause(requester string, decisions []decision, asking bool, failed error, now time.Time) time.Duration {
	unsettled, again := failed != nil, time.Duration(0)
	for _, decided := range decisions {
		switch {
		case decided.settled():
		case decided.after > 0:
			again = decided.after
		default:
			unsettled = unsettled || !asking // the answer brings the requester back
		}
	}
	if !unsettled {
		return again
	}
	if pause := r.state.failed(requester, now, failed); again == 0 || pause < again {
		return pause
	}
	return again
}

// requestsOf returns the newest requests of a requester that are undecided, the newest first, and when others were approved.
func (r *reconciler) requestsOf(ctx context.Context, requester string) (
	waiting []*certificatesv1.CertificateSigningRequest, approvals map[types.UID]time.Time, err error,
) {
	var list certificatesv1.CertificateSigningRequestList
	if err := r.reader.List(ctx, &list, client.MatchingFields{byRequester: requester}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing the certificate signing requests of %q: %w", shown(requester), err)
	}
	approvals = map[types.UID]time.Time{}
	for i := range list.Items { // they share what they hold with the cache: they are only read
		object := &list.Items[i]
		if at, approved := approvedAt(object); approved {
			approvals[object.UID] = at
		}
		if pending(object) && object.DeletionTimestamp.IsZero() {
			waiting = append(waiting, object)
		}
	}
	slices.SortFunc(waiting, func(a, b *certificatesv1.CertificateSigningRequest) int {
		if newer := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); newer != 0 {
			return newer
		}
		return strings.Compare(a.Name, b.Name)
	})
	return waiting[:min(len(waiting), maxWaiting)], approvals, nil
}

// observe returns what is known of the node that asks. If the cloud has to be asked for that, it is, and the facts say so.
func (r *reconciler) observe(ctx context.Context, requester string, requests []request, remembered remembered) (facts, error) {
	name, isNode := strings.CutPrefix(requester, nodeUserPrefix)
	if !isNode || name == "" {
		return facts{}, nil
	}
	node := &corev1.Node{} // shares what it holds with the cache: it is only read
	if err := r.reader.Get(ctx, client.ObjectKey{Name: name}, node, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return facts{}, nil
	} else if err != nil {
		return facts{}, fmt.Errorf("reading node %q: %w", shown(name), err)
	}
	known := facts{exists: node.DeletionTimestamp.IsZero(), ours: !r.instances.Foreign(node)}
	conforms := func(asked request) bool { return len(asked.problems) == 0 }
	if !known.exists || !known.ours || !slices.ContainsFunc(requests, conforms) {
		return known, nil
	}
	notBefore, maxAge := remembered.since.Add(-freshEnough), freshEnough
	if remembered.insists {
		notBefore, maxAge = remembered.since, 0
	}
	said, answered := r.answers.get(requester, identity{node.UID, node.Spec.ProviderID}, r.query(node), notBefore, maxAge)
	if !answered {
		known.asking = true
		return known, nil
	}
	known.fresh = said.soughtAfter(remembered.since)
	twins, err := r.twinsOf(ctx, node, said.observed)
	if err != nil {
		return facts{}, err
	}
	if known.unknown = said.contradicts(node, r.instances.Doubt(node, said.observed), twins); known.unknown != "" {
		return known, nil
	}
	known.known = true
	known.names, known.ips = addressesOfInstance(said.observed.Metadata.NodeAddresses)
	if !r.policy.TrustProviderIDs {
		known.names = append(known.names, node.Name) // by which the cloud has found the instance
	}
	return known, nil
}

// query returns as what the cloud is asked for a node: by its name alone, because all else in a Node its kubelet may have written.
//
// See ADR 62.
func (r *reconciler) query(node *corev1.Node) *corev1.Node {
	if r.policy.TrustProviderIDs {
		return node
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
}

// twinsOf returns the other nodes that have the provider ID of an instance and are not younger than this one. A kubelet may register its node with
// the provider ID of any instance, which must not keep the older node from a certificate.
func (r *reconciler) twinsOf(ctx context.Context, node *corev1.Node, observed ccm.Instance) (twins []string, err error) {
	id := observed.Metadata.ProviderID
	if id == "" {
		return nil, nil
	}
	var list corev1.NodeList
	if err := r.reader.List(ctx, &list, client.MatchingFields{byProviderID: id}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the nodes with the provider ID %q: %w", shown(id), err)
	}
	for i := range list.Items {
		if other := &list.Items[i]; other.Name != node.Name && !node.CreationTimestamp.Before(&other.CreationTimestamp) {
			twins = append(twins, other.Name)
		}
	}
	slices.Sort(twins)
	return twins, nil
}

// soughtAfter reports whether an answer was sought after a time. That an instance is there may be said by an older one.
func (a answer) soughtAfter(when time.Time) bool {
	if a.asked.Before(when) {
		return false
	}
	return a.err != nil || !a.observed.Exists || !a.observed.At.Before(when)
}

// contradicts returns why an answer does not say which instance a node is, empty if it does. There may be a doubt that the node is ours.
func (a answer) contradicts(node *corev1.Node, doubt string, twins []string) string {
	id := a.observed.Metadata.ProviderID
	switch {
	case a.err != nil:
		return kit.EventMessage(a.err.Error())
	case !a.observed.Exists:
		return "it has no instance for it"
	case node.Spec.ProviderID != "" && id != node.Spec.ProviderID:
		return fmt.Sprintf("its instance of this name has the provider ID %q, and the node has %q", shown(id), shown(node.Spec.ProviderID))
	case doubt != "":
		return shown(doubt)
	case len(twins) > 0:
		return fmt.Sprintf("it has the provider ID %[2]q, which these nodes had before: %[1]s", quoted(twins), shown(id))
	default:
		return ""
	}
}
