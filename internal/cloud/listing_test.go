package cloud

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

// A plugin reads regions beside each other, and returns at the first answer. Pages that come later belong to no listing.
func TestPagesAfterTheListing(t *testing.T) {
	outage := errors.New("a region is away")
	for name, returns := range map[string]error{"that succeeded": nil, "that failed": outage} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				regions := []string{"soon", "late", "very late"}
				cloud := Decorate(&plugin{list: func(_ context.Context, yield func([]provider.Instance) error) error {
					for i, region := range regions {
						go func() {
							time.Sleep(time.Duration(i) * 7 * time.Second)
							_ = yield([]provider.Instance{{InstanceMetadata: cloudprovider.InstanceMetadata{Region: region}}})
						}()
					}
					time.Sleep(time.Second)
					return returns
				}}, Options{})
				for range 100 {
					var seen []string
					err := provider.CapabilitiesOf(cloud).ListInstances(t.Context(), func(page []provider.Instance) error {
						seen = append(seen, page[0].Region)
						return nil
					})
					time.Sleep(10 * time.Second) // and the last of them comes during the next listing
					if !errors.Is(err, returns) || len(seen) != 1 || seen[0] != "soon" {
						t.Fatalf("error %v, pages of %q", err, seen)
					}
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// A plugin goes on after yield has refused a page, and returns no error. The listing is refused all the same.
func TestAPageThatWasRefusedIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := Decorate(&plugin{list: func(_ context.Context, yield func([]provider.Instance) error) error {
			for range 3 {
				_ = yield(nil)
			}
			return nil
		}}, Options{})
		refused, pages := errors.New("refused"), 0
		err := provider.CapabilitiesOf(cloud).ListInstances(t.Context(), func([]provider.Instance) error {
			if pages++; pages == 1 {
				return refused
			}
			return nil
		})
		if err != refused || pages != 1 {
			t.Errorf("error %v after %d pages, want the error of yield after the first", err, pages)
		}
	})
}
