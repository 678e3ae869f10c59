package cloud

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/internal/cloud/admission"
	"github.com/mooring-ccm/mooring/internal/cloud/guard"
)

// building is a plugin that does something whenever it is asked for one of its interfaces: with its name, and how often it was.
type building struct {
	*misbehaving
	build func(accessor string, times int)

	mu    sync.Mutex
	times map[string]int
}

func newBuilding(m *misbehaving, build func(accessor string, times int)) *building {
	b := &building{misbehaving: m, build: build, times: map[string]int{}}
	m.cloud = Decorate(b, many(Options{CallTimeout: time.Minute, WriteTimeout: time.Minute}))
	return b
}

func (b *building) begin(accessor string) {
	b.mu.Lock()
	b.times[accessor]++
	times := b.times[accessor]
	b.mu.Unlock()
	b.build(accessor, times)
}

func (b *building) Instances() (cloudprovider.Instances, bool) {
	b.begin("Instances")
	return buildingInstances{m: b.misbehaving}, true
}

func (b *building) InstancesV2() (cloudprovider.InstancesV2, bool) {
	b.begin("InstancesV2")
	return b.misbehaving.InstancesV2()
}

func (b *building) Zones() (cloudprovider.Zones, bool) {
	b.begin("Zones")
	return buildingZones{m: b.misbehaving}, true
}

func (b *building) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	b.begin("LoadBalancer")
	return b.misbehaving.LoadBalancer()
}

func (b *building) Routes() (cloudprovider.Routes, bool) {
	b.begin("Routes")
	return b.misbehaving.Routes()
}

type buildingInstances struct {
	cloudprovider.Instances
	m *misbehaving
}

func (i buildingInstances) InstanceExistsByProviderID(ctx context.Context, providerID string) (bool, error) {
	return true, i.m.call(ctx, providerID)
}

type buildingZones struct {
	cloudprovider.Zones
	m *misbehaving
}

func (z buildingZones) GetZoneByProviderID(ctx context.Context, providerID string) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{}, z.m.call(ctx, providerID)
}

// through is a call through an accessor, as controllers make it.
func (b *building) through(ctx context.Context, accessor, object string) error {
	switch accessor {
	case "InstancesV2":
		return b.node(ctx, object)
	case "Instances":
		instances, _ := b.cloud.Instances()
		_, err := instances.InstanceExistsByProviderID(ctx, object)
		return err
	case "Zones":
		zones, _ := b.cloud.Zones()
		_, err := zones.GetZoneByProviderID(ctx, object)
		return err
	case "Routes":
		routes, _ := b.cloud.Routes()
		_, err := routes.ListRoutes(ctx, "c")
		return err
	default:
		return b.get(ctx, object)
	}
}

var accessorNames = []string{"InstancesV2", "Instances", "Zones", "LoadBalancer", "Routes"}

// longest is how long a call through an accessor that hangs may take: until it is taken to be offered, and then a deadline that is set.
const longest = guard.Long + time.Minute + guard.Grace + usual

// For an hour, one accessor of the plugin panics, or hangs. Calls through it fail in time, and all others take as long as ever.
func TestAccessorsThatPanicOrHang(t *testing.T) {
	for _, wrong := range accessorNames {
		for _, how := range []string{"panics", "hangs"} {
			t.Run(wrong+" "+how, func(t *testing.T) {
				inVirtualTime(t, Options{}, func(t *testing.T, m *misbehaving) {
					b := newBuilding(m, func(accessor string, _ int) {
						switch {
						case accessor != wrong:
						case how == "panics":
							panic("nil client")
						default:
							<-m.over
						}
					})
					sick := func(ctx context.Context, object string) error {
						began := time.Now()
						err := b.through(ctx, wrong, object)
						var panicked *guard.PanicError
						if how == "panics" && !errors.As(err, &panicked) && ctx.Err() == nil || err == nil || time.Since(began) > longest {
							t.Errorf("error %v after %s", err, time.Since(began))
						}
						return err
					}
					m.manyRetry(sick, admission.PriorityNewNode, numbered("sick", 5)...)
					for range 60 {
						time.Sleep(time.Minute)
						for _, accessor := range accessorNames {
							began := time.Now()
							if accessor == wrong {
								continue
							}
							if err := b.through(m.ctx, accessor, "healthy"); err != nil || time.Since(began) > 2*usual {
								t.Errorf("%s: error %v after %s", accessor, err, time.Since(began))
							}
						}
					}
				})
			})
		}
	}
}

// One call of an accessor never comes back. That one call fails at its deadline, and later ones are as ever, whichever it was.
func TestOneCallOfAnAccessorHangs(t *testing.T) {
	for _, wrong := range accessorNames {
		for hangs := 1; hangs < 4; hangs++ {
			inVirtualTime(t, Options{}, func(t *testing.T, m *misbehaving) {
				b := newBuilding(m, func(accessor string, times int) {
					if accessor == wrong && times == hangs {
						<-m.over
					}
				})
				for range 4 {
					began := time.Now()
					if err := b.through(m.ctx, wrong, "first"); time.Since(began) > longest {
						t.Errorf("call %d of %s hangs: error %v after %s", hangs, wrong, err, time.Since(began))
					}
				}
				for range 3 {
					began := time.Now()
					if err := b.through(m.ctx, wrong, "another"); err != nil || time.Since(began) > usual {
						t.Errorf("call %d of %s has hung: error %v after %s", hangs, wrong, err, time.Since(began))
					}
				}
			})
		}
	}
}

// A plugin without an interface may come to offer it once it is initialized. What it said counts while a later call hangs.
func TestWhatIsOfferedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offered, hung, over := false, false, make(chan struct{})
		a := newAccessor(&client{metrics: newMetrics(nil)}, "Zones", func() (cloudprovider.Zones, bool) {
			if hung {
				<-over
			}
			return buildingZones{}, offered
		}, false)
		if a.offers() {
			t.Error("it is offered, and the plugin has said that it is not")
		}
		hung = true
		for _, most := range []time.Duration{guard.Grace, 0, 0} { // for the first time only it is waited for
			began := time.Now()
			if got := a.offers(); got || time.Since(began) > most {
				t.Errorf("offered: %t after %s", got, time.Since(began))
			}
		}
		synctest.Wait()
		hung = false
		close(over)
		synctest.Wait()
		if offered = true; !a.offers() {
			t.Error("it is not offered")
		}
		offered = false // as a plugin does that cannot make its client for a moment
		if _, err := a.get(); err == nil || !a.offers() {
			t.Errorf("error %v, offered: %t", err, a.offers())
		}
	})
}
