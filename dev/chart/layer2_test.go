package chart_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/mooring-ccm/mooring/dev/chart/render"
	"github.com/mooring-ccm/mooring/dev/doctest"
	"github.com/mooring-ccm/mooring/dev/e2e/sandbox"
	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
	"github.com/mooring-ccm/mooring/dev/must"
)

// layer2Page is the guide whose commands install layer 2.
const layer2Page = "docs/how-to/metal-layer-2.md"

// commandOf returns the only command of a page of the project that begins so.
func commandOf(t *testing.T, page, begin string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	must.NoError(t, err)
	var found []string
	for _, command := range doctest.Commands(string(text)) {
		if strings.HasPrefix(command, begin) {
			found = append(found, command)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d commands that begin with %q, want one: %q", page, len(found), begin, found)
	}
	return found[0]
}

// documentedLayer2 returns the values that the guide's command sets.
func documentedLayer2(t *testing.T) string {
	t.Helper()
	values := map[string]any{}
	setValues(t, commandOf(t, layer2Page, "helm install"), values)
	text, err := yaml.Marshal(values)
	must.NoError(t, err)
	return string(text)
}

// Levels of Pod Security Admission, and the label by which a namespace asks for one.
const (
	privileged, baseline, restricted = "privileged", "baseline", "restricted"
	enforceLabel                     = "pod-security.kubernetes.io/enforce"
)

// levelOf creates a namespace that enforces a level of Pod Security Admission, with the ServiceAccount of the chart.
func levelOf(t *testing.T, client kubernetes.Interface, level string) string {
	t.Helper()
	name := "enforces-" + level
	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{enforceLabel: level}},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	_, err = client.CoreV1().ServiceAccounts(name).Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud-controller-manager"},
	}, metav1.CreateOptions{})
	must.NoError(t, err)
	return name
}

// TestPodsPassAdmission puts the pods of the chart through the admission of a real API server, in namespaces of each level.
func TestPodsPassAdmission(t *testing.T) {
	cluster := localclustertest.Start(t)
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	must.NoError(t, err)
	tests := map[string]struct {
		values string
		refuse map[string][]string // what the refusal of a level names; a level that is not here admits the pod
	}{
		"the defaults": {"provider: {name: metal}", map[string][]string{
			baseline: {"host namespaces (hostNetwork=true)"}, restricted: {"host namespaces (hostNetwork=true)"},
		}},
		"off the host's network": {"provider: {name: sim}\nhostNetwork: false", nil},
		"the guide's command": {documentedLayer2(t), map[string][]string{
			baseline:   {"host namespaces (hostNetwork=true)", "non-default capabilities", "NET_RAW"},
			restricted: {"runAsNonRoot != true", "runAsUser=0", "unrestricted capabilities"},
		}},
	}
	for _, level := range []string{privileged, baseline, restricted} {
		namespace := levelOf(t, client, level)
		for name, test := range tests {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "rendered-"}, Spec: podOf(t, test.values)}
			_, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if apierrors.IsForbidden(err) != (test.refuse[level] != nil) || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("%s, level %s: %v; want a refusal: %v", name, level, err, test.refuse[level] != nil)
			}
			for _, want := range test.refuse[level] {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s, level %s: %v; want it to name %q", name, level, err, want)
				}
			}
		}
	}
	label := commandOf(t, layer2Page, "kubectl label namespace")
	if want := enforceLabel + "=" + privileged; !slices.Contains(strings.Fields(label), want) {
		t.Errorf("the guide says %q, and not %s, which is the level that admits the pod", label, want)
	}
}

// opensRawSockets is set for a process that looks whether it may.
const opensRawSockets = "MOORING_TEST_RAW_SOCKETS"

// TestRawSocketProcess is the process that TestLayer2MayOpenRawSockets starts as the container.
func TestRawSocketProcess(t *testing.T) {
	if os.Getenv(opensRawSockets) == "" {
		return
	}
	socket, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatalf("opening a packet socket: %v", err)
	}
	must.NoError(t, syscall.Close(socket))
	for _, capability := range []func() error{
		func() error { return syscall.Sethostname([]byte("changed")) }, // CAP_SYS_ADMIN
		func() error { return syscall.Chroot("/") },                    // CAP_SYS_CHROOT
	} {
		if err := capability(); !errors.Is(err, syscall.EPERM) {
			t.Errorf("it may do more than open raw sockets: %v", err)
		}
	}
}

// TestLayer2MayOpenRawSockets starts a process with the user, the capabilities and the privileges that the rendered container gets
// of a container runtime, and has it open the socket of layer 2. What an empty securityContext.capabilities.add leaves out is not
// opened, and neither is it by a user that is not root.
func TestLayer2MayOpenRawSockets(t *testing.T) {
	sandbox.Require(t, "setpriv")
	program := copyOfTest(t)
	for name, test := range map[string]struct {
		values string
		may    bool
	}{
		"the guide's command":         {documentedLayer2(t), true},
		"without l2":                  {"provider: {name: metal}", false},
		"the capability alone":        {"provider: {name: metal}\nsecurityContext: {capabilities: {drop: [ALL], add: [NET_RAW]}}", false},
		"with a user of the reader's": {"provider: {name: metal, metal: {l2: true}}\nsecurityContext: {runAsUser: 1000}", true},
	} {
		t.Run(name, func(t *testing.T) {
			spec := podOf(t, test.values)
			args := append(privileges(t, spec), program, "-test.run=^TestRawSocketProcess$", "-test.v")
			command := exec.CommandContext(t.Context(), "setpriv", args...)
			command.Env = append(os.Environ(), opensRawSockets+"=1")
			var output bytes.Buffer
			command.Stdout, command.Stderr = &output, &output
			err := command.Run()
			if !strings.Contains(output.String(), "RUN   TestRawSocketProcess") {
				t.Fatalf("it did not start: %v\n%s", err, output.String())
			}
			if refused := strings.Contains(output.String(), "opening a packet socket: operation not permitted"); refused == test.may || (err == nil) != test.may {
				t.Errorf("setpriv %s: may open the socket: %v, want %v; %v\n%s", strings.Join(args, " "), !refused, test.may, err, output.String())
			}
		})
	}
}

// privileges are the arguments of setpriv that make a process what a container runtime makes of a container: its user, and the
// capabilities of the bounding set, which a program of root has and one of another user has not.
func privileges(t *testing.T, spec corev1.PodSpec) []string {
	t.Helper()
	container := spec.Containers[0].SecurityContext
	user, group := *spec.SecurityContext.RunAsUser, *spec.SecurityContext.RunAsGroup
	if container.RunAsUser != nil {
		user = *container.RunAsUser
	}
	if !slices.Contains(container.Capabilities.Drop, "ALL") {
		t.Fatalf("it drops %v, and not all capabilities: this test does not know what is left", container.Capabilities.Drop)
	}
	bounding := "-all"
	for _, capability := range container.Capabilities.Add {
		bounding += ",+" + strings.ToLower(string(capability))
	}
	args := []string{"--reuid=" + strconv.FormatInt(user, 10), "--regid=" + strconv.FormatInt(group, 10), "--clear-groups",
		"--inh-caps=-all", "--bounding-set=" + bounding}
	if !*container.AllowPrivilegeEscalation {
		args = append(args, "--no-new-privs")
	}
	return args
}

// copyOfTest puts this program where every user can start it.
func copyOfTest(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mooring-chart-")
	must.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // for the user of the container
	own, err := os.Executable()
	must.NoError(t, err)
	from, err := os.Open(own)
	must.NoError(t, err)
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, "chart.test"), os.O_CREATE|os.O_WRONLY, 0o755) //nolint:gosec // likewise
	must.NoError(t, err)
	_, err = io.Copy(to, from)
	must.NoError(t, errors.Join(err, to.Close()))
	return to.Name()
}

// TestLayer2IsAsked reads what the chart says of values that do not go together.
func TestLayer2IsAsked(t *testing.T) {
	for values, want := range map[string]string{
		"provider: {name: sim, metal: {l2: true}}":                                               "provider.metal.l2: is for provider.name=metal",
		"provider: {name: sim, metal: {configSource: metallb}}":                                  "provider.metal.configSource: is for provider.name=metal",
		"provider: {name: metal, metal: {configSource: cilium}}":                                 "configSource",
		"provider: {name: metal, metal: {l2: true}}\nhostNetwork: false":                         "provider.metal.l2: needs hostNetwork=true",
		"provider: {name: metal, config: {inline: \"kind: MetalCloudConfig\\nl2: {}\"}}":         "set provider.metal.l2=true",
		"provider: {name: metal, config: {inline: \"l2: {}\"}, metal: {l2: true, layer2: true}}": "layer2",
	} {
		if _, err := render.Objects(load(t), parse(t, values)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", values, err, want)
		}
	}
}
