package metallb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// apiServer has resources of MetalLB.
func apiServer(objects ...runtime.Object) *fake.FakeDynamicClient {
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range kinds {
		lists[kind] = strings.ToUpper(kind.Resource[:1]) + kind.Resource[1:] + "List"
	}
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)
}

// A start waits for what may be applied together with the manager, and then says what is missing.
func TestStartSaysWhatIsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		of   string
		fail error
		want string
		took time.Duration
	}{
		"definitions": {
			"communities", apierrors.NewNotFound(schema.GroupResource{}, ""), "CRDs) are not all there: the API server has no communities.v1beta1.metallb.io", startTimeout,
		},
		"pools":  {"", nil, "there is no IPAddressPool in namespace metallb-system", startTimeout},
		"rights": {"bgppeers", apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no role")), "the verbs list and watch are needed", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := apiServer()
				if test.fail != nil {
					client.PrependReactor("list", test.of, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.fail })
				}
				began := time.Now()
				_, err := open(t.Context(), client, Options{Namespace: DefaultNamespace})
				if took := time.Since(began); err == nil || !strings.Contains(err.Error(), test.want) || took < test.took || took > test.took+5*time.Second {
					t.Errorf("after %s: %v, want %s after %s", took, err, test.want, test.took)
				}
			})
		})
	}
}

// The last pool that goes takes nothing with it, and a pool that comes is handed on.
func TestResourcesAreFollowed(t *testing.T) {
	first, second := poolOf(t, "first", 1, "198.18.0.0/28"), poolOf(t, "second", 2, "198.18.1.0/28")
	client := apiServer(first.object, made(t, "L2Advertisement", "all", 0, "{}").object)
	source, err := open(t.Context(), client, Options{Namespace: DefaultNamespace})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	said, done := make(chan string), make(chan error, 1)
	go func() {
		done <- source.Watch(ctx, func(content []byte, gone error) {
			select {
			case said <- fmt.Sprint(string(content), gone):
			case <-ctx.Done():
			}
		})
	}()
	// says waits for a text. The other texts may come before it.
	says := func(what string, before ...string) {
		t.Helper()
		deadline := time.After(20 * time.Second)
		for {
			select {
			case got := <-said:
				if slices.ContainsFunc(before, func(text string) bool { return strings.Contains(got, text) }) {
					continue
				}
				if !strings.Contains(got, what) {
					t.Errorf("it says %s, want %s", got, what)
				}
				return
			case <-deadline:
				t.Fatalf("it does not say %s", what)
			}
		}
	}
	pools := client.Resource(kinds[0]).Namespace(DefaultNamespace)
	if _, err := pools.Create(ctx, second.object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	says(`"name":"second"`)
	for _, name := range []string{"first", "second"} {
		if err := pools.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// The source says the second pool alone where the machine pauses between the deletions.
	says("there is no IPAddressPool in namespace metallb-system that can be used", `"name":"second"`)
	if _, err := pools.Create(ctx, first.object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	says(`"name":"first"`)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
