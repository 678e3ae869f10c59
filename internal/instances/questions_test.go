package instances_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/instances"
)

// names returns the nodes of answers, those of errors with a mark.
func names(answers []instances.Answer) map[string]bool {
	of := map[string]bool{}
	for _, answer := range answers {
		of[answer.Node.Name] = answer.Err == nil
	}
	return of
}

func lookups(inv *instances.Inventory, options instances.QuestionOptions) *instances.Questions {
	return inv.Questions(func(ctx context.Context, nodes []*corev1.Node, yield instances.Yield) {
		inv.LookupEach(ctx, nodes, 0, yield)
	}, options)
}

// A question for which the cloud takes its time is put once, is waited for once, and its answer is there for a later call.
func TestAQuestionOutlivesThePassThatPutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 5 * time.Second
		cloud := newV2Cloud(func(n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
			if strings.HasPrefix(n.Name, "slow") {
				time.Sleep(slow)
			}
			return everything(n)
		})
		cloud.callTime = 100 * time.Millisecond
		var late atomic.Int32
		questions := lookups(instances.New(instances.Options{Cloud: cloud}), instances.QuestionOptions{Late: func() { late.Add(1) }})
		nodes := []*corev1.Node{node("a"), node("slow")}
		ask := func(waits time.Duration, want ...string) {
			t.Helper()
			start := time.Now()
			got := names(questions.Ask(t.Context(), nodes))
			if took := time.Since(start); took != waits {
				t.Errorf("took %s, want %s", took, waits)
			}
			if len(got) != len(want) {
				t.Errorf("answers for %v, want %v", got, want)
			}
			for _, name := range want {
				if !got[name] {
					t.Errorf("answers for %v, want one for %s", got, name)
				}
			}
		}
		ask(instances.AnswerWait, "a")
		ask(cloud.callTime, "a")
		if cloud.of("slow") != 1 || late.Load() != 0 {
			t.Errorf("%d calls for the slow node, %d answers came late, want 1 and none yet", cloud.of("slow"), late.Load())
		}
		time.Sleep(slow)
		if late.Load() != 1 {
			t.Errorf("%d answers came late, want 1", late.Load())
		}
		ask(cloud.callTime, "a", "slow")
		if cloud.of("slow") != 1 {
			t.Errorf("%d calls for the slow node, want none by the call that returns its answer", cloud.of("slow"))
		}
		ask(cloud.callTime, "a") // it is asked for again, and not waited for
		time.Sleep(2 * slow)
		ask(cloud.callTime, "a", "slow")
		if cloud.of("slow") != 2 {
			t.Errorf("%d calls for the slow node, want 2", cloud.of("slow"))
		}
	})
}

// What one listing says of many nodes is taken whole or not at all, and there is one listing at a time.
func TestAListingIsOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, ids := nodes(30)
		cloud := newListingCloud(ids...)
		cloud.pageTime, cloud.pageSize = time.Second, 10
		questions := lookups(instances.New(instances.Options{Cloud: cloud}), instances.QuestionOptions{})
		for pass, want := range []int{0, 0, 30, 0} {
			if got := questions.Ask(t.Context(), all[:29]); len(got) != min(want, 29) {
				t.Errorf("pass %d has %d answers, want %d", pass, len(got), want)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second) // the cloud rests between two listings
		if got := cloud.count(); got != 2 {
			t.Errorf("%d listings, want 2", got)
		}
	})
}

// A node for which the cloud returns errors is asked for less and less often, up to a bound.
func TestErrorsAreFollowedByPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := newV2Cloud(func(n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
			if n.Name == "fails" {
				return nil, errors.New("no answer")
			}
			return everything(n)
		})
		questions := lookups(instances.New(instances.Options{Cloud: cloud}), instances.QuestionOptions{LongestPause: time.Minute})
		for range 600 {
			questions.Ask(t.Context(), []*corev1.Node{node("fails"), node("a")})
			time.Sleep(5 * time.Second)
		}
		if fails, a := cloud.of("fails"), cloud.of("a"); fails < 40 || fails > 60 || a != 600 {
			t.Errorf("%d calls within an hour for the node that fails, %d for the other one; want about one in a minute, and 600", fails, a)
		}
	})
}
