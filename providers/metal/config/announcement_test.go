package config

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/metal/routing"
)

func TestAnnouncementDefaultsAreValid(t *testing.T) {
	announcement := Announcement{}.WithDefaults()
	if errs := announcement.validate(field.NewPath("announcement")); errs != nil {
		t.Fatal(errs.ToAggregate())
	}
	if !announcement.Selector().Matches(labels.Set{}) {
		t.Error("by default not all nodes are selected")
	}
	// The promise is 3 s until the network is told, routers included.
	health := announcement.Health
	step := max(health.Interval.Duration, health.Timeout.Duration)
	if notice := time.Duration(health.Failures)*step + health.Interval.Duration; notice > 2*time.Second {
		t.Errorf("by default it takes %s to notice that a node is dead", notice)
	}
}

// TestNextHopsThatTheSpeakerCannotAnnounce is the bound that the speaker has: more would be left out.
func TestNextHopsThatTheSpeakerCannotAnnounce(t *testing.T) {
	for count, valid := range map[int]bool{routing.MaxNextHops: true, routing.MaxNextHops + 1: false} {
		announcement := Announcement{ClusterNextHops: count, LocalNextHops: count}.WithDefaults()
		if errs := announcement.validate(field.NewPath("announcement")); (len(errs) == 0) != valid || !valid && len(errs) != 2 {
			t.Errorf("%d next hops: %v", count, errs)
		}
	}
}

func TestAnnouncementZeroDrainWaitIsKept(t *testing.T) {
	announcement := Announcement{DrainWait: &metav1.Duration{}}.WithDefaults()
	if announcement.DrainWait.Duration != 0 {
		t.Errorf("drainWait 0s became %s", announcement.DrainWait.Duration)
	}
}

func TestAnnouncementErrorsNameTheirFields(t *testing.T) {
	announcement := Announcement{
		NodeSelector:    &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Near"}}},
		ClusterNextHops: 256, LocalNextHops: -1, PodCIDRs: []string{"10.244.0.0/16", "10.244.1.0/16", "pods"}, DrainWait: &metav1.Duration{Duration: -time.Second},
		Health: Health{Interval: metav1.Duration{Duration: time.Millisecond}, Timeout: metav1.Duration{Duration: time.Hour},
			Failures: 101, Successes: -1, KubeProxyPort: 70000, KubeProxyProbe: "ICMP",
			RefusedWait: &metav1.Duration{Duration: time.Hour}},
	}
	said := announcement.validate(field.NewPath("announcement")).ToAggregate().Error()
	for _, want := range []string{"announcement.nodeSelector", "Near", "announcement.clusterNextHops", "256",
		"announcement.localNextHops", "announcement.podCIDRs[1]", "announcement.podCIDRs[2]", "announcement.drainWait", "-1s", "announcement.health.interval", "1ms",
		"announcement.health.timeout", "announcement.health.failures",
		"announcement.health.successes", "announcement.health.kubeProxyPort", "70000",
		"announcement.health.kubeProxyProbe", `"ICMP"`, `"HTTP", "TCP", "None"`, "announcement.health.refusedWait", "1h0m0s"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in: %s", want, said)
		}
	}
}

func TestL2ErrorsNameTheirFields(t *testing.T) {
	l2 := L2{Interfaces: []string{"eth0", "eth0", "a-name-that-is-too-long"}, Pools: []string{"", "a", "a"}}
	said := l2.validate(field.NewPath("l2")).ToAggregate().Error()
	for _, want := range []string{"l2.interfaces[1]", "l2.interfaces[2]", "l2.pools[0]", "l2.pools[2]"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in: %s", want, said)
		}
	}
	for every, right := range map[time.Duration]bool{0: true, 10 * time.Second: true, time.Hour: true, time.Second: false, -time.Second: false, 2 * time.Hour: false} {
		l2 := L2{GratuitousInterval: &metav1.Duration{Duration: every}}
		if errs := l2.validate(field.NewPath("l2")); (errs == nil) != right {
			t.Errorf("gratuitousInterval %s: %v", every, errs)
		}
	}
	defaulted := L2{}
	if defaulted.setDefaults(); defaulted.GratuitousInterval.Duration != time.Minute {
		t.Errorf("by default it is %s", defaulted.GratuitousInterval.Duration)
	}
	if errs := (&L2{}).validate(field.NewPath("l2")); errs != nil {
		t.Error(errs.ToAggregate())
	}
}
