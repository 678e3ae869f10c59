package ccm_test

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mooring-ccm/mooring/dev/localcluster/localclustertest"
)

// startUpError is a command line and what the program says of it.
type startUpError struct {
	args []string
	want string
}

// TestStartUpErrors runs the program as an operator does, and reads what it says: the errors of one start, each once, as the
// last lines of its output, and exit code 1.
func TestStartUpErrors(t *testing.T) {
	_, kubeconfig := controlPlane(t)
	config, _ := cloudConfig(t, nil)
	working := []string{"--cloud-provider=callLog", "--cloud-config=" + config, "--kubeconfig=" + kubeconfig, "--controllers=beating", "--secure-port=0"}
	with := func(args ...string) []string { return append(append([]string{}, working...), args...) }
	tests := flagErrors(kubeconfig, with)
	maps.Copy(tests, cloudConfigErrors(t, kubeconfig, with))
	maps.Copy(tests, clusterErrors(t, with))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := start(t, test.args...)
			if code := p.wait(t); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if got := p.errorLines(); got != test.want {
				t.Errorf("error:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}

// flagErrors are the errors that the flags alone show.
func flagErrors(kubeconfig string, with func(...string) []string) map[string]startUpError {
	return map[string]startUpError{
		"no provider": {
			[]string{"--kubeconfig=" + kubeconfig}, `invalid flags: --cloud-provider cannot be empty`,
		},
		"an unknown provider": {
			with("--cloud-provider=call-lgo"), `invalid flags: --cloud-provider: Invalid value: "call-lgo": unknown provider; this program has announcing, announcing-needs, callLog, calling, reading, sim`,
		},
		"the name that kubelets use": {
			with("--cloud-provider=external"), `invalid flags: --cloud-provider: Invalid value: "external": unknown provider; this program has announcing, announcing-needs, callLog, calling, reading, sim`,
		},
		"an unknown flag": {with("--cloud-provder=callLog"), `unknown flag: --cloud-provder`},
		"an argument":     {with("start"), `unknown command "start" for "cloud-controller-manager"`},
		"flags in conflict, all at once": {
			with("--allocate-node-cidrs", "--leader-elect-lease-duration=5s", "--node-selector=a=!b", "--provider-id-schemes=aws,a/b",
				"--concurrent-node-syncs=0", "--controllers=lunch", "--cloud-api-max-in-flight=-1", "--cloud-api-qps=-1",
				"--cloud-api-burst=-1", "--node-status-update-frequency=0", "--node-full-refresh-period=-1s"),
			`invalid flags:` + "\n" +
				`  "lunch" is not in the list of known controllers` + "\n" +
				`  concurrent-node-syncs must be a positive number` + "\n" +
				`  --cluster-cidr: Required value: --allocate-node-cidrs needs it` + "\n" +
				`  --leader-elect-lease-duration: Invalid value: "5s": must be longer than --leader-elect-renew-deadline (10s)` + "\n" +
				`  --node-selector: Invalid value: "a=!b": unable to parse requirement: found '!', expected: identifier` + "\n" +
				`  --provider-id-schemes[1]: Invalid value: "a/b": must be the part of a provider ID before ://, such as aws, or nothing for provider IDs without one` + "\n" +
				`  --cloud-api-max-in-flight: Invalid value: -1: must not be negative` + "\n" +
				`  --cloud-api-qps: Invalid value: -1: must be 0 or a positive number` + "\n" +
				`  --cloud-api-burst: Invalid value: -1: must not be negative` + "\n" +
				`  --node-status-update-frequency: Invalid value: "0s": must be positive` + "\n" +
				`  --node-full-refresh-period: Invalid value: "-1s": must not be negative`,
		},
		"a burst of nothing": {
			with("--cloud-api-burst=5"), `invalid flags: --cloud-api-burst: Invalid value: 5: needs --cloud-api-qps`,
		},
		"accounts without identities": {
			with("--service-account-prefix=Ccm-"), `invalid flags:` + "\n" +
				`  --service-account-prefix: Invalid value: "Ccm-": is to begin the names of ServiceAccounts: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')` + "\n" +
				`  --service-account-prefix: Invalid value: "Ccm-": needs --use-service-account-credentials`,
		},
		"ranges of one family": {
			with("--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/8,11.0.0.0/8"),
			`invalid flags: --cluster-cidr: Invalid value: "10.0.0.0/8,11.0.0.0/8": at most one range of each IP family`,
		},
		"a renew deadline of hardly a retry": {
			with("--leader-elect-retry-period=9s"),
			`invalid flags: --leader-elect-renew-deadline: Invalid value: "10s": must be longer than 1.2 times --leader-elect-retry-period (9s)`,
		},
		"a content type that is none": {
			with("--kube-api-content-type=text/x"),
			`invalid flags: --kube-api-content-type: Unsupported value: "text/x": supported values: "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"`,
		},
		// As Kubernetes' own components do.
		"a feature gate that is none": {with("--feature-gates=Lunch=true"), `invalid argument "Lunch=true" for "--feature-gates" flag: unrecognized feature gate: Lunch`},
		"a log format that is none":   {with("--logging-format=xml"), `invalid flags: format: Invalid value: "xml": Unsupported log format`},
		"no kubeconfig":               {with("--kubeconfig="), `no way to the API server by --kubeconfig "", --master "" or the ServiceAccount of a Pod: unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined`},
	}
}

// cloudConfigErrors are those of --cloud-config, and of the plugin that reads it.
func cloudConfigErrors(t *testing.T, kubeconfig string, with func(...string) []string) map[string]startUpError {
	t.Helper()
	nothing, _ := cloudConfig(t, func(settings *callLogConfig) { settings.Nothing = true })
	untagged, _ := cloudConfig(t, func(settings *callLogConfig) { settings.NoClusterID = true })
	refused, _ := cloudConfig(t, func(settings *callLogConfig) { settings.Password = `hunter2"<hunter2` })
	panics, _ := cloudConfig(t, func(settings *callLogConfig) { settings.Password = "late-hunter2" })
	dir := t.TempDir()
	invalid := filepath.Join(dir, "invalid.json")
	if err := os.WriteFile(invalid, []byte(`{"jurnal": ""}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]startUpError{
		"no cloud config": {
			[]string{"--cloud-provider=callLog", "--kubeconfig=" + kubeconfig},
			`cloud provider "callLog": callLog: required; it is the file to write to`,
		},
		"a cloud config that is not there": {
			with("--cloud-config=" + dir + "/absent"), `--cloud-config: open ` + dir + `/absent: no such file or directory`,
		},
		"a cloud config that is a folder": {with("--cloud-config=" + dir), `--cloud-config: ` + dir + ` is not a file`},
		"a cloud config with two errors": {
			with("--cloud-config=" + invalid),
			`cloud provider "callLog", --cloud-config ` + invalid + `:` + "\n" +
				`  json: unknown field "jurnal"` + "\n" +
				`  callLog: required; it is the file to write to`,
		},
		"a plugin that builds nothing": {
			with("--cloud-config=" + nothing), `cloud provider "callLog" built nothing from --cloud-config "` + nothing + `", and no error`,
		},
		"a plugin that repeats its password": {
			with("--cloud-config=" + refused), `cloud provider "callLog", --cloud-config ` + refused + `: logging in with "(hidden)": denied`,
		},
		"a plugin that panics with its password": {
			with("--cloud-config=" + panics), `stopped: the cloud provider panicked in Initialize: logging in with "(hidden)": denied`,
		},
		"no cluster ID": {
			with("--cloud-config=" + untagged),
			`stopped: cloud provider "callLog" has found no cluster ID (HasClusterID is false): tag the cluster as its documentation says, or set --allow-untagged-cloud, as for every provider whose own main does not ask`,
		},
	}
}

// clusterErrors are the errors that show at the API server, in a controller, or on this machine.
func clusterErrors(t *testing.T, with func(...string) []string) map[string]startUpError {
	t.Helper()
	taken, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	_, takenPort, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]startUpError{
		"a controller that cannot be built": {
			with("--controllers=broken-controller"), `controller broken-controller cannot be built: the moon is in the wrong house`,
		},
		"a controller that fails": {
			with("--controllers=failing-controller"), `stopped: controller failing-controller: lost its way`,
		},
		"missing grants, all at once": {
			with("--controllers=needy-controller"),
			`missing RBAC grants (deploy/rbac.yaml holds the ClusterRole and the Roles that grant them):` + "\n" +
				`  system:serviceaccount:kube-system:cloud-controller-manager may not list secrets` + "\n" +
				`  system:serviceaccount:kube-system:cloud-controller-manager may not watch secrets` + "\n" +
				`  system:serviceaccount:kube-system:cloud-controller-manager may not update deployments/scale.apps "coredns" in namespace kube-system` + "\n" +
				`  system:serviceaccount:kube-system:cloud-controller-manager may not deletecollection nodes`,
		},
		"a lease that the role does not name": {
			with("--leader-elect-resource-name=other"),
			`missing RBAC grants (deploy/rbac.yaml holds the ClusterRole and the Roles that grant them):` + "\n" +
				`  system:serviceaccount:kube-system:cloud-controller-manager may not get leases.coordination.k8s.io "other" in namespace kube-system` + "\n" +
				`  system:serviceaccount:kube-system:cloud-controller-manager may not update leases.coordination.k8s.io "other" in namespace kube-system`,
		},
		"an identity that the role does not name": {
			with("--controllers=failing-controller", "--use-service-account-credentials"),
			`missing RBAC grants (deploy/rbac.yaml holds the ClusterRole and the Roles that grant them):` + "\n" +
				`  system:serviceaccount:kube-system:cloud-controller-manager may not get serviceaccounts "failing-controller" in namespace kube-system` + "\n" +
				`  system:serviceaccount:kube-system:cloud-controller-manager may not create serviceaccounts/token "failing-controller" in namespace kube-system`,
		},
		"a port that is taken": {
			with("--secure-port=" + takenPort),
			`secure port: failed to create listener: failed to listen on 0.0.0.0:` + takenPort + `: listen tcp 0.0.0.0:` + takenPort + `: bind: address already in use`,
		},
	}
}

// TestAPIServerIsWaitedFor shows that the start-up waits, says for whom and why, and goes on when the API server is there.
func TestAPIServerIsWaitedFor(t *testing.T) {
	cluster := localclustertest.Start(t)
	ctx := context.WithoutCancel(t.Context())
	kubeconfig := shippedIdentity(t, cluster)
	if err := cluster.StopAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	config, written := cloudConfig(t, nil)
	args := []string{"--cloud-provider=callLog", "--cloud-config=" + config, "--kubeconfig=" + kubeconfig, "--controllers=beating", "--secure-port=0",
		"--callLog=" + string(written)}

	first := start(t, args...)
	first.awaitOutput(t, `"Waiting for the API server" url="`+cluster.AdminConfig().Host+`"`)
	first.awaitOutput(t, `connection refused`)
	first.signal(t, syscall.SIGTERM)
	if code := first.wait(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM while waiting, want 0", code)
	}

	second := start(t, args...)
	second.awaitOutput(t, `"Waiting for the API server"`)
	if err := cluster.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	written.awaitEntry(t, second.PID(), beating+" started")
}
