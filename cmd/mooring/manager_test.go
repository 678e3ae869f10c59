package main

import (
	"cmp"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/program"
	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// kubeconfigWith writes a kubeconfig with a token, for a cluster that no test calls.
func kubeconfigWith(t *testing.T, token string) string {
	t.Helper()
	return write(t, fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://192.0.2.1:6443"}}]
users: [{name: u, user: {token: %s}}]
`, token))
}

// A plan that cannot be had is explained, and nothing of the credentials is shown.
func TestPlanIsRefused(t *testing.T) {
	const token = "very-secret"
	kubeconfig := kubeconfigWith(t, token)
	status, elsewhere, body := http.StatusOK, "", ""
	manager := httptest.NewTLSServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if request.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("it asks as %q", request.Header.Get("Authorization"))
		}
		if elsewhere != "" {
			response.Header().Set("Location", elsewhere)
		}
		response.WriteHeader(status)
		_, _ = response.Write([]byte(body))
	}))
	defer manager.Close()
	another := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		t.Errorf("another server was sent %v", request.Header)
	}))
	defer another.Close()
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "https://" + deaf.Addr().String()
	_ = deaf.Close()
	authority := write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: manager.Certificate().Raw})))
	for name, test := range map[string]struct {
		server, authority string
		status            int
		elsewhere, body   string
		want              []string
	}{
		"no listener":       {server: closed, want: []string{"nothing listens at " + closed, "port-forward"}},
		"another authority": {server: manager.URL, want: []string{"is not trusted", "--certificate-authority"}},
		"no TLS":            {server: strings.Replace(another.URL, "http:", "https:", 1), want: []string{"does not speak TLS"}},
		"unknown":           {server: manager.URL, authority: authority, status: 401, want: []string{"does not know who asks (401)"}},
		"forbidden":         {server: manager.URL, authority: authority, status: 403, want: []string{`nonResourceURLs: ["/plan"]`, `verbs: ["get"]`}},
		"anonymous": {
			server: manager.URL, authority: authority, status: 403, body: `forbidden: User "system:anonymous" cannot get path "/plan"`,
			want: []string{"does not know who asks", "anonymous access to /plan is denied (403)", "--authentication-kubeconfig"},
		},
		"not under dry run":  {server: manager.URL, authority: authority, status: 404, want: []string{"it does not run with --dry-run (404)"}},
		"an error":           {server: manager.URL, authority: authority, status: 500, want: []string{"500 Internal Server Error", `no plan\x1b[2J`}},
		"something else":     {server: manager.URL, authority: authority, status: 200, want: []string{"reading the plan of the manager at"}},
		"sent somewhere":     {server: manager.URL, authority: authority, status: 302, elsewhere: another.URL, want: []string{"302 Found"}},
		"a slash at the end": {server: manager.URL + "/", authority: authority, status: 404, want: []string{"--dry-run"}},
	} {
		t.Run(name, func(t *testing.T) {
			status, elsewhere, body = test.status, test.elsewhere, cmp.Or(test.body, "no plan\x1b[2J")
			args := []string{"plan", "--kubeconfig=" + kubeconfig, "--server=" + test.server}
			if test.authority != "" {
				args = append(args, "--certificate-authority="+test.authority)
			}
			code, stdout, stderr := programtest.Call(t, newRoot(), args...)
			if code != cli.ExitFailed || stdout != "" {
				t.Errorf("exit code %d, output %q", code, stdout)
			}
			for _, want := range test.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("it does not say %q:\n%s", want, stderr)
				}
			}
			if strings.Contains(stderr, token) {
				t.Errorf("it shows the token:\n%s", stderr)
			}
		})
	}
}

// What there is to do ends the command with exit code 3 only if that is asked for.
func TestPlanExitCodes(t *testing.T) {
	body := `{"provider": "sim", "cluster": "c", "since": "2026-03-01T12:00:00Z", "intents": [%s]}`
	intent := `{"where": "cloud", "verb": "CreateRoute", "effect": "create", "kind": "Route", "name": "10.0.0.0/24"}`
	answer := ""
	manager := httptest.NewTLSServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		_, _ = response.Write([]byte(answer))
	}))
	defer manager.Close()
	args := []string{"plan", "--kubeconfig=" + kubeconfigWith(t, "t"), "--server=" + manager.URL, "--insecure-skip-tls-verify"}
	for name, test := range map[string]struct {
		intents string
		more    []string
		code    int
		want    string
	}{
		"nothing, and asked": {"", []string{"--exit-code"}, cli.ExitOK, "There is nothing to do."},
		"something":          {intent, nil, cli.ExitOK, "+ CreateRoute in the cloud"},
		"something, asked":   {intent, []string{"--exit-code"}, cli.ExitDiffers, "1 to create, 0 to change"},
		"as JSON":            {intent, []string{"--exit-code", "-o", "json"}, cli.ExitDiffers, `"effect": "create"`},
		"as YAML":            {intent, []string{"--exit-code", "-o", "yaml"}, cli.ExitDiffers, "- controller: \"\"\n  effect: create\n"},
		"all of it":          {intent, []string{"--exit-code", "-o", "wide"}, cli.ExitDiffers, "1 to create, 0 to change"},
		"by a path":          {intent, []string{"--exit-code", "-o", "jsonpath={.intents[*].name}"}, cli.ExitDiffers, "10.0.0.0/24"},
		"by columns": {
			intent, []string{"--exit-code", "-o", "custom-columns=KIND:.kind,CIDR:{.name},WHY:why"}, cli.ExitDiffers,
			"KIND    CIDR          WHY\nRoute   10.0.0.0/24   <none>\n",
		},
	} {
		answer = fmt.Sprintf(body, test.intents)
		code, stdout, stderr := programtest.Call(t, newRoot(), append(args, test.more...)...)
		if code != test.code || stderr != "" || !strings.Contains(stdout, test.want) || strings.Contains(stdout, "\x1b") {
			t.Errorf("%s: exit code %d, want %d, and %q:\n%s%s", name, code, test.code, test.want, stdout, stderr)
		}
	}
}

func TestReportCommandLinesThatAreWrong(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"plan": {
			[]string{"plan", "--server=http://x", "--output=xml", "--kubeconfig=/nowhere/config", "--certificate-authority=/nowhere/ca", "--insecure-skip-tls-verify"},
			[]string{
				"--server: must be https://HOST:PORT", `--output: "xml": must be table, wide, json, yaml, jsonpath=TEMPLATE or custom-columns=NAME:PATH[,NAME:PATH]`, "--kubeconfig: stat /nowhere/config",
				"--certificate-authority: stat /nowhere/ca", "only one of them",
			},
		},
		"plan of no server":   {[]string{"plan", "--server="}, []string{"--server: required"}},
		"plan, with password": {[]string{"plan", "--server=https://a:hunter2@b"}, []string{"--server: must be https://HOST:PORT"}},
		"status": {
			[]string{"status", "--lease=x", "--insecure-skip-tls-verify", "-o", "xml"},
			[]string{`--lease: "x": must be NAMESPACE/NAME`, "only with --server", `--output: "xml"`},
		},
		"status, as two things": {[]string{"status", "--html=x", "-o", "json"}, []string{"--html, --output: only one of them"}},
		"a path that is none":   {[]string{"plan", "-o", "jsonpath={.x"}, []string{"--output: unclosed action"}},
		"columns that are none": {
			[]string{"plan", "-o", "custom-columns=A:.x,B"}, []string{`--output: custom-columns: "B": must be NAME:PATH`},
		},
		"orphans": {
			[]string{"orphans", "--cloud-provider=fog", "--remove", "--cluster-cidr=10.0.0.0", "-o", "xml"},
			[]string{`--cloud-provider: "fog": not in this program`, "--cluster-cidr:", "--output:", "--remove: standard input is no terminal to ask at"},
		},
		"orphans, yes to nothing": {[]string{"orphans", "--yes"}, []string{"--yes: there is nothing to confirm without --remove"}},
	} {
		code, _, stderr := programtest.Call(t, newRoot(), c.args...)
		if code != cli.ExitUsage {
			t.Errorf("%s: exit code %d, want %d", name, code, cli.ExitUsage)
		}
		for _, want := range c.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: the error does not say %q:\n%s", name, want, stderr)
			}
		}
		if strings.Contains(stderr, "hunter2") {
			t.Errorf("%s: it shows a password:\n%s", name, stderr)
		}
	}
}

// A symbolic link in the place of the page is replaced, and not followed.
func TestThePageFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "status.html")
	must.NoError(t, os.WriteFile(victim, []byte("mine"), 0o600))
	must.NoError(t, os.Symlink(victim, link))
	must.NoError(t, writePrivate(link, []byte("page")))
	for path, want := range map[string]string{victim: "mine", link: "page"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	info, err := os.Lstat(link)
	must.NoError(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("the page has the mode %s", info.Mode())
	}
}

func TestCompletions(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, stdout, _ := programtest.Call(t, newRoot(), "completion", shell); code != cli.ExitOK || !strings.Contains(stdout, "mooring") {
			t.Errorf("%s: exit code %d", shell, code)
		}
	}
	kubeconfig := write(t, "apiVersion: v1\nkind: Config\ncontexts: [{name: blue, context: {cluster: c}}]\n")
	for want, args := range map[string][]string{
		"orphans\t":     {"__complete", "o"},
		"--exit-code\t": {"__complete", "plan", "--ex"},
		"json\n":        {"__complete", "status", "--output", ""},
		"linux/arm64\n": {"__complete", "build", "--platform", ""},
		"sim\n":         {"__complete", "orphans", "--cloud-provider", ""},
		"blue\n":        {"__complete", "check", "--kubeconfig", kubeconfig, "--context", ""},
		"--context\tname of the context of the kubeconfig to use\n": {"__complete", "check", "--cont"},
	} {
		if _, stdout, _ := programtest.Call(t, newRoot(), args...); !strings.Contains(stdout, want) {
			t.Errorf("%v offers no %q:\n%s", args, want, stdout)
		}
	}
}

// Under the name of a plugin of kubectl, the program calls itself what people type.
func TestKubectlPlugin(t *testing.T) {
	self, err := os.Executable()
	must.NoError(t, err)
	plugin := filepath.Join(t.TempDir(), "kubectl-mooring")
	must.NoError(t, os.Symlink(self, plugin))
	command := exec.CommandContext(t.Context(), plugin, "status", "--help")
	command.Env = append(os.Environ(), program.SelfEnv+"=1")
	output, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "kubectl mooring status [") {
		t.Errorf("%v:\n%s", err, output)
	}
}
