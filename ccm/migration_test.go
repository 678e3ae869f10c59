package ccm_test

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// migrationRBAC lets the shipped ServiceAccount use the second lease, which is no part of what it needs usually.
const migrationRBAC = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: migration, namespace: kube-system}
rules:
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [cloud-provider-extraction-migration]
  verbs: [get, list, watch, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: migration, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: migration}
subjects: [{kind: ServiceAccount, name: cloud-controller-manager, namespace: kube-system}]
`

// TestLeaderMigration moves a controller here from another controller manager, which holds the second lease at first.
func TestLeaderMigration(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	if err := cluster.Apply(t.Context(), []byte(migrationRBAC)); err != nil {
		t.Fatal(err)
	}
	configure := func(leaders string) string {
		path := filepath.Join(t.TempDir(), "migration.yaml")
		text := "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n" +
			"leaderName: cloud-provider-extraction-migration\ncontrollerLeaders:\n" + leaders
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	toUs := configure("- {name: beating-controller, component: cloud-controller-manager}\n")
	toThem := configure("- {name: beating-controller, component: kube-controller-manager}\n")

	r := newReplicas(t, cluster, kubeconfig, "--enable-leader-migration", "--leader-elect")
	leases := r.client.CoordinationV1().Leases("kube-system")
	other := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud-provider-extraction-migration"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("kube-controller-manager"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: ptr.To(metav1.NowMicro()),
		},
	}
	other, err := leases.Create(t.Context(), other, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	theirs := start(t, append(r.args, "--controllers=beating", "--leader-migration-config="+toThem)...)
	theirs.awaitOutput(t, `leaves to another controller manager do not run" controllers=["beating-controller"]`)
	r.callLog.awaitEntry(t, theirs.PID(), "SetInformers")
	theirs.signal(t, syscall.SIGTERM)
	if code := theirs.wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}

	ours := start(t, append(r.args, "--controllers=beating", "--leader-migration-config="+toUs)...)
	ours.awaitOutput(t, `"Attempting to acquire leader lease..." lock="kube-system/cloud-provider-extraction-migration"`)
	if slices.Contains(r.callLog.of(t, ours.PID()), beating+" started") {
		t.Error("the controller runs while another controller manager holds the lease")
	}
	other.Spec.HolderIdentity = ptr.To("")
	if _, err := leases.Update(t.Context(), other, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.callLog.awaitEntry(t, ours.PID(), beating+" started")
	ours.signal(t, syscall.SIGTERM)
	if code := ours.wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	released, err := leases.Get(t.Context(), other.Name, metav1.GetOptions{})
	if err != nil || ptr.Deref(released.Spec.HolderIdentity, "") != "" {
		t.Errorf("the lease was not released: %v %v", released, err)
	}
	if slices.Contains(r.callLog.of(t, theirs.PID()), beating+" started") {
		t.Error("a controller of another controller manager ran")
	}
}

// migrationConfig writes the configuration of a migration of the beating controller, and returns its path.
func migrationConfig(t *testing.T) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "migration.yaml")
	text := "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n" +
		"leaderName: cloud-provider-extraction-migration\ncontrollerLeaders: [{name: beating-controller, component: '*'}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// TestLostMigrationLeaseEndsTheProcess even though the main lease is held.
func TestLostMigrationLeaseEndsTheProcess(t *testing.T) {
	cluster, kubeconfig := controlPlane(t)
	if err := cluster.Apply(t.Context(), []byte(migrationRBAC)); err != nil {
		t.Fatal(err)
	}
	config := migrationConfig(t)
	r := newReplicas(t, cluster, kubeconfig, "--enable-leader-migration", "--leader-migration-config="+config,
		"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms")
	leader := r.lead(t)
	r.usurp(t, "cloud-provider-extraction-migration")
	if code := leader.wait(t); code != 1 || leader.errorLine() != "stopped: leader election for migrated controllers lost" {
		t.Errorf("exit code %d, error %q", code, leader.errorLine())
	}
}
