package localcluster_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/localcluster"
)

func testAudit(t *testing.T, cluster *localcluster.Cluster) {
	const user = "audited"
	config, err := cluster.UserConfig(user, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	const writes = 20
	for done := range writes {
		if done == writes/2 { // what comes after it is read as well, and what was before it once
			if _, err := cluster.AuditEvents(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}
		if _, err := client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	events, err := cluster.AuditEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]int{}
	for _, event := range events {
		if event.User.Username == user && event.ObjectRef != nil && localcluster.IsWrite(event) {
			counted[event.Verb+" "+event.ObjectRef.Resource]++
		}
	}
	if diff := cmp.Diff(map[string]int{"create secrets": writes}, counted); diff != "" {
		t.Errorf("writes of %s in the audit log (-want +got):\n%s", user, diff)
	}
}

// A write that the API server has received is waited for: somebody may see its effect before its answer.
func testAuditOfWritesUnderWay(t *testing.T, cluster *localcluster.Cluster) {
	const path = "/api/v1/namespaces/default/configmaps"
	config := cluster.AdminConfig()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	body, slow := io.Pipe()
	answered := make(chan error, 1)
	go func() {
		response, err := client.Post(config.Host+path, "application/json", body)
		if err == nil {
			err = response.Body.Close()
		}
		answered <- err
	}()
	waited := func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := cluster.AuditEvents(ctx)
		return err != nil && strings.Contains(err.Error(), "no answer yet to a write to "+path), nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, waited); err != nil {
		t.Errorf("the write is not waited for: %v", err)
	}
	if _, err := slow.Write([]byte(`{"metadata":{"name":"slow"}}`)); err != nil {
		t.Error(err)
	}
	if err := slow.Close(); err != nil {
		t.Error(err)
	}
	events, err := cluster.AuditEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(events, func(event auditv1.Event) bool {
		return event.RequestURI == path && event.ResponseStatus.Code == http.StatusCreated
	}) {
		t.Error("the write is not among the events")
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
