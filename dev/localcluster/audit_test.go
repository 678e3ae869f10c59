package localcluster_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mooring-ccm/mooring/dev/localcluster"
	"github.com/mooring-ccm/mooring/dev/poll"
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

// testAuditOfWritesUnderWay: AuditEvents waits for a received write, because a client may see its effect before its answer.
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
	waited := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := cluster.AuditEvents(ctx)
		if err == nil || !strings.Contains(err.Error(), "no answer yet to a write to "+path) {
			return fmt.Errorf("the error is %v", err)
		}
		return nil
	}
	poll.Until(t, "the write is waited for", waited)
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

// What a server did not answer before its end is waited for neither then nor when it is back.
func testAuditOfWritesCutOff(t *testing.T, cluster *localcluster.Cluster) {
	const path = "/api/v1/namespaces/default/secrets"
	config := cluster.AdminConfig()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	body, never := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if response, err := client.Post(config.Host+path, "application/json", body); err == nil {
			_ = response.Body.Close()
		}
	}()
	poll.Until(t, "the write is under way", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err := cluster.AuditEvents(ctx)
		return poll.Holds(err != nil)
	})
	if err := cluster.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = never.Close()
	<-ended
	for range 2 {
		if _, err := cluster.AuditEvents(t.Context()); err != nil {
			t.Error(err)
		}
		if err := cluster.StartAPIServer(t.Context()); err != nil && !strings.Contains(err.Error(), "it runs") {
			t.Fatal(err)
		}
	}
}
