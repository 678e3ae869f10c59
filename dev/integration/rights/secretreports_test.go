package rights_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/otlp"
	"github.com/mooring-ccm/mooring/dev/poll"
)

// traced has the manager record every trace.
func (s *scenario) traced(t *testing.T) *otlp.Receiver {
	t.Helper()
	spans := otlp.Start(t)
	s.args = append(s.args, "--tracing-config-file="+spans.ConfigFile(t))
	return spans
}

// requireSecretSpans looks for secrets in the spans of a manager that has ended, and in what these say of the process. It returns how many
// of them carry the text of an error.
func requireSecretSpans(t *testing.T, known secrets, received *otlp.Receiver) (failed int) {
	t.Helper()
	spans := received.Spans()
	if len(spans) == 0 {
		t.Error("there are no spans: this test looks in the wrong place")
	}
	for _, resource := range received.Traced() {
		known.requireAbsent(t, "a span", resource.String())
	}
	for _, span := range spans {
		if span.GetStatus().GetMessage() != "" {
			failed++
		}
	}
	return failed
}

// report is what a command of the tool says, and how it ends.
type report struct {
	stdout, stderr string
	failed         bool
}

// ask runs the tool with a kubeconfig, and with the manager at a URL.
func (s *scenario) ask(t *testing.T, kubeconfig, manager string, args ...string) report {
	t.Helper()
	path, err := tool()
	must.NoError(t, err)
	var stdout, stderr strings.Builder
	command := exec.CommandContext(t.Context(), path, append(args, "--kubeconfig="+kubeconfig, "--server="+manager, "--insecure-skip-tls-verify")...)
	command.Stdout, command.Stderr = &stdout, &stderr
	err = command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return report{stdout.String(), stderr.String(), err != nil}
}

// requireSecretReports looks for secrets in what the tool says of a manager that does not run under --dry-run, in every form, and in the
// errors of commands that fail: a manager without a plan, and API servers and managers that refuse credentials and repeat them.
func (s *scenario) requireSecretReports(t *testing.T, known secrets) {
	t.Helper()
	refusing := newEcho(t, "", true).url
	config, err := clientcmd.LoadFromFile(s.reader)
	must.NoError(t, err)
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.CertificateAuthorityData, cluster.CertificateAuthority, cluster.InsecureSkipTLSVerify = refusing, nil, "", true
	}
	elsewhere := filepath.Join(t.TempDir(), "kubeconfig")
	must.NoError(t, clientcmd.WriteToFile(*config, elsewhere))
	manager := "https://" + s.leader().Address
	for _, test := range []struct {
		kubeconfig, manager string
		command             []string
		fails               bool
	}{
		{s.reader, manager, []string{"status"}, false},
		{s.reader, manager, []string{"status", "-o", "json"}, false},
		{s.reader, manager, []string{"status", "--html=-"}, false},
		{s.reader, manager, []string{"plan"}, true},
		{s.reader, refusing, []string{"status"}, true},
		{s.reader, refusing, []string{"plan"}, true},
		{elsewhere, manager, []string{"status"}, true},
	} {
		said := s.ask(t, test.kubeconfig, test.manager, test.command...)
		what := "mooring " + strings.Join(test.command, " ")
		if said.failed != test.fails {
			t.Errorf("%s: failed %t, want %t: %s%s", what, said.failed, test.fails, said.stdout, said.stderr)
		}
		known.requireAbsent(t, what, said.stdout+said.stderr)
	}
}

// requireSecretPlan looks for secrets in a plan with something to do in the cloud and in the cluster, as it is served and as the tool shows
// it, and in everything else that a dry run produces.
func (s *scenario) requireSecretPlan(t *testing.T, known secrets, token string) {
	t.Helper()
	manager := "https://" + s.leader().Address
	poll.Until(t, "the plan has something to do everywhere", func(ctx context.Context) error {
		intents, err := s.leader().plan(ctx, token)
		if err != nil {
			return err
		}
		if problem := lacking(intents, map[string]string{
			"kubernetes patch Node node-001": "/spec/providerID", "cloud EnsureLoadBalancer Service web": "/targets",
			"cloud DeleteRoute Route 10.244.99.0/24": "/targetNode",
		}); problem != nil {
			return fmt.Errorf("the plan: %w", problem)
		}
		return nil
	})
	for _, command := range [][]string{{"plan"}, {"plan", "--all"}, {"plan", "-o", "json"}, {"status"}, {"status", "-o", "yaml"}} {
		said, what := s.ask(t, s.reader, manager, command...), "mooring "+strings.Join(command, " ")
		if said.failed {
			t.Errorf("%s failed: %s", what, said.stderr)
		}
		known.requireAbsent(t, what, said.stdout+said.stderr)
	}
	s.requireSecret(t, known, token, "/plan")
}
