package route

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apiServer answers as the API server would that has some nodes, and counts the questions.
type apiServer struct {
	client.Reader
	mu    sync.Mutex
	nodes []string
	fails string
	asked []string
}

func (a *apiServer) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, key.Name)
	switch {
	case key.Name == a.fails:
		return errors.New("no answer")
	case slices.Contains(a.nodes, key.Name):
		return nil
	default:
		return apierrors.NewNotFound(corev1.Resource("nodes"), key.Name)
	}
}

func (a *apiServer) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	a.asked = append(a.asked, "*")
	if a.fails == "*" {
		return errors.New("no answer")
	}
	for _, name := range a.nodes {
		items := list.(*metav1.PartialObjectMetadataList)
		items.Items = append(items.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return nil
}

func TestNodesAreConfirmedToBeGone(t *testing.T) {
	routes := []*cloudprovider.Route{
		route("1", "10.120.1.0/24", "gone"), route("2", "10.120.2.0/24", "there"), route("3", "10.120.3.0/24", "silent"),
		route("4", "10.120.4.0/24", "Projects/x"), blackhole("5", "10.120.5.0/24", ""), route("6", "10.120.6.0/24", "mine"),
		route("7", "10.120.7.0/25", "there"), route("8", "10.120.8.0/23", "there"),
	}
	tests := []struct {
		name        string
		nodes       []member
		server      *apiServer
		asked, done []string
		waiting     int
		fails       bool
	}{
		{
			name: "some of them", nodes: []member{node("mine"), node("new", "10.120.7.0/24", "10.120.2.0/24", "10.120.1.0/24", "10.120.8.0/24")},
			server: &apiServer{nodes: []string{"mine", "new", "there"}, fails: "silent"}, asked: []string{"gone", "silent", "there"},
			// Of the new node's routes, one is in place of a route that stays, one has one to a part of it, and one is covered by one.
			done: []string{"remove 4", "remove 5", "remove 6", "recreate 1 by new", "create 10.120.8.0/24 by new"}, waiting: 2, fails: true,
		},
		{
			name: "all, and so it is", server: &apiServer{}, asked: []string{"*", "gone", "mine", "silent", "there"},
			done: []string{"remove 1", "remove 2", "remove 3", "remove 4", "remove 5", "remove 6", "remove 7", "remove 8"},
		},
		{name: "all, but it is not so", server: &apiServer{nodes: []string{"new"}}, asked: []string{"*"}, fails: true},
		{name: "all, but the API server fails", server: &apiServer{fails: "*"}, asked: []string{"*"}, fails: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wanted := desire(test.nodes, clusterCIDRs)
			planned := makePlan(wanted, routes, abilities{})
			admitted := allowed{removals: planned.removals, makes: planned.makes}
			held, err := absenceCheck{test.server}.doubtful(t.Context(), wanted.targets, slices.Concat(planned.removals, planned.makes))
			if (err != nil) != test.fails {
				t.Errorf("error: %v", err)
			}
			slices.Sort(test.server.asked)
			if diff := cmp.Diff(test.asked, test.server.asked); diff != "" {
				t.Errorf("questions (-want +got):\n%s", diff)
			}
			got := admitted.without(held)
			if diff := cmp.Diff(test.done, lines(plan{removals: got.removals, makes: got.makes})); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
			if len(got.waiting) != test.waiting {
				t.Errorf("%d wants wait, want %d", len(got.waiting), test.waiting)
			}
		})
	}
}

func TestTheAPIServerIsNotAskedWithoutNeed(t *testing.T) {
	server := &apiServer{}
	wanted := desire([]member{node("a", "10.120.0.0/24")}, clusterCIDRs)
	planned := makePlan(wanted, []*cloudprovider.Route{route("1", "10.120.1.0/24", "a")}, abilities{})
	held, err := absenceCheck{server}.doubtful(t.Context(), wanted.targets, slices.Concat(planned.removals, planned.makes))
	if err != nil || len(held) != 0 || len(server.asked) != 0 {
		t.Errorf("held %v, error %v, asked %q; want nothing", held, err, server.asked)
	}
	var nodes map[types.NodeName]target
	if held, err := (absenceCheck{server}).doubtful(t.Context(), nodes, nil); err != nil || held != nil || len(server.asked) != 0 {
		t.Errorf("without nodes and routes: held %v, error %v, asked %q; want nothing", held, err, server.asked)
	}
}
