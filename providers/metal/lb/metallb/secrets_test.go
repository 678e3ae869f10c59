package metallb

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/mooring-ccm/mooring/providers/metal/config/convert"
	"github.com/mooring-ccm/mooring/providers/metal/lb/ipam/pool"
)

const swordfish = "swordfish-of-the-router"

// secretOf is a Secret with one key.
func secretOf(namespace, name, kind, key, value string) *unstructured.Unstructured {
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": kind, "data": map[string]any{key: base64.StdEncoding.EncodeToString([]byte(value))},
	}}
	secret.SetNamespace(namespace)
	secret.SetName(name)
	return secret
}

// opened returns the source of an API server with a pool, and a router with these fields.
func opened(t *testing.T, client *fake.FakeDynamicClient, further string) *Source {
	t.Helper()
	for _, one := range []resource{poolOf(t, "first", 1, "198.18.0.0/28"), peerOf(t, "router", 2, 64512, further), made(t, "BGPAdvertisement", "all", 3, "{}")} {
		of := slices.IndexFunc(kinds, func(kind schema.GroupVersionResource) bool {
			return strings.EqualFold(kind.Resource, one.object.GetKind()+"s")
		})
		if _, err := client.Resource(kinds[of]).Namespace(DefaultNamespace).Create(t.Context(), one.object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	source, err := open(t.Context(), client, Options{Namespace: DefaultNamespace})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// readAt returns what the source has at a path, or the error.
func readAt(source *Source, path string) string {
	content, err := source.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// eventsOf returns the events that a source records once.
func eventsOf(source *Source) string {
	recorder := record.NewFakeRecorder(10)
	ctx, stop := context.WithCancel(context.Background())
	stop()
	source.Report(ctx, recorder, func() ([]pool.Usage, bool) { return nil, false })
	close(recorder.Events)
	var all []string
	for event := range recorder.Events {
		all = append(all, event)
	}
	return strings.Join(all, "\n")
}

const basicAuth = "kubernetes.io/basic-auth"

// A Secret of MetalLB's namespace is the password of a router. What is wrong with it is said in an event, and no Secret of another namespace
// is asked for.
func TestPasswordInASecret(t *testing.T) {
	for name, test := range map[string]struct {
		peer string
		// secret is nil for none.
		secret *unstructured.Unstructured
		fail   error
		want   string
		event  string
	}{
		"right":      {"{name: bgp}", secretOf(DefaultNamespace, "bgp", basicAuth, "password", swordfish), nil, swordfish, ""},
		"missing":    {"{name: bgp}", nil, nil, "there is no Secret metallb-system/bgp: create it", "PasswordSecretRefused spec.passwordSecret: there is no Secret metallb-system/bgp"},
		"wrong type": {"{name: bgp}", secretOf(DefaultNamespace, "bgp", "Opaque", "password", swordfish), nil, `its type is "Opaque"`, `its type is "Opaque": create it anew`},
		"wrong key":  {"{name: bgp}", secretOf(DefaultNamespace, "bgp", basicAuth, "username", swordfish), nil, "has no key password", "has no key password: add it"},
		"empty":      {"{name: bgp}", secretOf(DefaultNamespace, "bgp", basicAuth, "password", "\n"), nil, "is empty", "is empty"},
		"too long":   {"{name: bgp}", secretOf(DefaultNamespace, "bgp", basicAuth, "password", strings.Repeat(swordfish, 4)), nil, "at most 80", "at most 80"},
		"no right":   {"{name: bgp}", nil, apierrors.NewForbidden(schema.GroupResource{}, "bgp", errors.New("no role")), "the verb get is needed", "the verb get is needed"},
		"another namespace": {
			"{name: bgp, namespace: other}", secretOf("other", "bgp", basicAuth, "password", swordfish), nil, "there is no Secret metallb-system/bgp",
			"spec.passwordSecret.namespace: the Secret is read from namespace metallb-system",
		},
		"a path": {"{name: ../../other/secrets/bgp}", secretOf("other", "bgp", basicAuth, "password", swordfish), nil, "is no name of a Secret", "is no name of a Secret"},
	} {
		t.Run(name, func(t *testing.T) {
			client := apiServer()
			if test.secret != nil {
				if err := client.Tracker().Create(secrets, test.secret, test.secret.GetNamespace()); err != nil {
					t.Fatal(err)
				}
			}
			if test.fail != nil {
				client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.fail })
			}
			source := opened(t, client, ", passwordSecret: "+test.peer)
			path := source.current.config.BGP.Peers[0].PasswordFile
			if got := readAt(source, path); !strings.Contains(got, "is being read") {
				t.Errorf("before it is read: %q", got)
			}
			if !source.ReadPasswords(t.Context()) || source.ReadPasswords(t.Context()) {
				t.Error("the first look is no change, or the second is one")
			}
			if got := readAt(source, path); !strings.Contains(got, test.want) {
				t.Errorf("it is %q, want %q", got, test.want)
			}
			said := eventsOf(source)
			if !strings.Contains(said, test.event) || test.event == "" && said != "" {
				t.Errorf("it tells %q, want %q", said, test.event)
			}
			if strings.Contains(said+string(source.current.content), swordfish) {
				t.Error("the password is shown")
			}
			for _, action := range client.Actions() {
				if action.GetNamespace() != DefaultNamespace || action.GetResource() == secrets && action.GetVerb() != "get" {
					t.Errorf("it does %s %s in namespace %s", action.GetVerb(), action.GetResource().Resource, action.GetNamespace())
				}
			}
		})
	}
}

// Every other file is read as a file. A BGPPeer with a password has one, whatever Secret it names, and no path leads to another namespace.
func TestOtherFilesAreRead(t *testing.T) {
	source := opened(t, apiServer(), ", password: x, passwordSecret: {name: bgp}")
	if source.ReadPasswords(t.Context()) {
		t.Error("a Secret is read beside a password")
	}
	if said := eventsOf(source); !strings.Contains(said, "NoEquivalent spec.passwordSecret: password is set too") {
		t.Errorf("it tells %q", said)
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("in a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{file: "in a file", convert.SecretFile("other", "bgp"): "no such file"} {
		if got := readAt(source, path); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// A password that changes is told of, and one that cannot be asked for stays.
func TestPasswordsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := apiServer()
		var away atomic.Bool
		client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, apierrors.NewServiceUnavailable("away")
		})
		if err := client.Tracker().Create(secrets, secretOf(DefaultNamespace, "bgp", basicAuth, "password", swordfish), DefaultNamespace); err != nil {
			t.Fatal(err)
		}
		source := opened(t, client, ", passwordSecret: {name: bgp}")
		path := source.current.config.BGP.Peers[0].PasswordFile
		ctx, stop := context.WithCancel(t.Context())
		changes, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			source.FollowPasswords(ctx, func() { changes++ })
		}()
		after := func(wait time.Duration, want string, told int) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if got := readAt(source, path); got != want || changes != told {
				t.Errorf("it is %q after %d changes, want %q after %d", got, changes, want, told)
			}
		}
		after(0, source.secretName("bgp")+" is being read", 0)
		offer(source.routers, struct{}{}) // as another BGPPeer does
		after(0, swordfish, 1)
		after(3*secretInterval, swordfish, 1)
		if err := client.Tracker().Update(secrets, secretOf(DefaultNamespace, "bgp", basicAuth, "password", "another"), DefaultNamespace); err != nil {
			t.Fatal(err)
		}
		after(secretInterval, "another", 2)
		away.Store(true)
		after(3*secretInterval, "another", 2)
		away.Store(false)
		after(secretInterval, "another", 2)
		stop()
		<-done
	})
}
