package servingcertificate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/ccm"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// One question is under way for a requester, and its answer serves callers that allow its age, for a while.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		a := newAnswers(func(context.Context, *corev1.Node, time.Duration) (ccm.Instance, error) {
			asked++
			time.Sleep(10 * time.Second)
			return ccm.Instance{Exists: true}, nil
		}, &kit.Enqueuer{})
		a.begin(t.Context())
		began, about := time.Now(), identity{uid: "1"}
		get := func(about identity, notBefore time.Time) bool {
			_, answered := a.get("n", about, &corev1.Node{}, notBefore, 0)
			return answered
		}
		expect := func(what string, answered, want bool, questions int) {
			t.Helper()
			synctest.Wait()
			if answered != want || asked != questions {
				t.Errorf("%s: answered %v after %d questions, want %v after %d", what, answered, asked, want, questions)
			}
		}
		expect("at first", get(about, began), false, 1)
		expect("while it is asked", get(about, began), false, 1)
		time.Sleep(11 * time.Second)
		expect("when the answer is there", get(about, began), true, 1)
		expect("for another node of this name", get(identity{uid: "2"}, began), false, 2)
		time.Sleep(11 * time.Second)
		expect("when a later question is needed", get(identity{uid: "2"}, time.Now()), false, 3)
		time.Sleep(10*time.Second + freshEnough)
		expect("while it is fresh", get(identity{uid: "2"}, began), true, 3)
		time.Sleep(time.Second)
		expect("when it is old", get(identity{uid: "2"}, began), false, 4)
		a.running.Wait()
	})
}

// An answer that does not say which instance a node is says why.
func TestContradictions(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-1"}, Spec: corev1.NodeSpec{ProviderID: "sim://1"}}
	found := func(id string) answer {
		return answer{observed: ccm.Instance{Exists: true, Metadata: cloudprovider.InstanceMetadata{ProviderID: id}}}
	}
	for name, test := range map[string]struct {
		said  answer
		doubt string
		twins []string
		want  string
	}{
		"it does":               {found("sim://1"), "", nil, ""},
		"an error":              {answer{err: errors.New("internal error")}, "", nil, "internal error"},
		"no instance":           {answer{}, "", nil, "has no instance"},
		"another instance":      {found("sim://2"), "", nil, `provider ID "sim://2", and the node has "sim://1"`},
		"a second node":         {found("sim://1"), "", []string{"n-2", "n-3"}, `it has the provider ID "sim://1", which these nodes had before: "n-2", "n-3"`},
		"not proven to be ours": {found("sim://1"), "its scheme is unknown", nil, "its scheme is unknown"},
	} {
		if got := test.said.contradicts(node, test.doubt, test.twins); !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Requests that wait are looked at again with growing pauses, and from the start when another comes or the node changes.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newState()
		waiting := []*certificatesv1.CertificateSigningRequest{{ObjectMeta: metav1.ObjectMeta{UID: "1"}}}
		if s.again("n", time.Now()) {
			t.Error("a requester without requests is looked at again")
		}
		for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			s.observe("n", waiting, time.Now())
			got := s.failed("n", time.Now(), nil)
			if early := s.failed("n", time.Now().Add(time.Second), nil); got != want || early != want-time.Second {
				t.Errorf("the pause is %s, and a second later %s, want %s", got, early, want)
			}
			time.Sleep(got)
			if known := s.observe("n", waiting, time.Now()); !known.insists || !known.since.Equal(time.Now()) {
				t.Error("what is due again is answered by an old answer")
			}
		}
		if !s.again("n", time.Now()) || s.observe("n", waiting, time.Now()).insists || s.failed("n", time.Now(), nil) != backoff.First {
			t.Error("a change of the node does not begin anew")
		}
		waiting = append(waiting, &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{UID: "2"}})
		time.Sleep(time.Second)
		if known := s.observe("n", waiting, time.Now()); !known.since.Equal(time.Now()) || known.failures.Count != 0 {
			t.Error("another request does not begin anew")
		}
		s.approved("n", "1", time.Now())
		if left := s.undecided("n", slices.Clone(waiting)); len(left) != 1 || left[0].UID != "2" || len(s.undecided("m", waiting)) != 2 {
			t.Errorf("%d requests are undecided, want the unapproved ones", len(left))
		}
		s.forget("n", nil)
		if len(s.of) != 1 || s.again("n", time.Now()) {
			t.Error("an approval that the cache does not show is forgotten, or looked at again")
		}
		if s.forget("n", map[types.UID]time.Time{"1": {}}); len(s.of) != 0 {
			t.Error("a requester without requests is remembered")
		}
	})
}
