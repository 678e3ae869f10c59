package cloudsim_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
	"github.com/mooring-ccm/mooring/providers/sim/simtest"
)

// Whatever happens between and beside the pages of a list, the list has every instance that was there all the time, and none
// twice.
func TestPagesNeverLoseAStableInstance(t *testing.T) {
	const stable = 23
	cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(stable)})
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, stable+3).Draw(rt, "page size")
		writes := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 20).Draw(rt, "writes")
		if err := cloud.Service.SetKnobs(api.Knobs{PageSize: size}); err != nil {
			rt.Fatal(err)
		}
		var writers sync.WaitGroup
		writers.Go(func() { churn(t, cloud, writes) })
		seen := map[string]int{}
		pages := 0
		err := cloud.Client.ListInstances(t.Context(), func(page []api.Instance) error {
			if len(page) > size {
				return fmt.Errorf("a page of %d, the size is %d", len(page), size)
			}
			if pages++; pages == 1 {
				churn(t, cloud, []int{30, 31}) // certainly between two pages
			}
			for _, instance := range page {
				seen[instance.Name]++
			}
			return nil
		})
		writers.Wait()
		if err != nil {
			rt.Fatal(err)
		}
		for n := 1; n <= stable; n++ {
			if name := cloudsim.DefaultInstance(n).Name; seen[name] != 1 {
				rt.Fatalf("%s is in the list %d times", name, seen[name])
			}
		}
	})
}

// churn creates an instance for each number that has none and deletes the others.
func churn(t *testing.T, cloud *simtest.Cloud, numbers []int) {
	for _, n := range numbers {
		spec := cloudsim.DefaultInstance(1000 + n)
		_, err := cloud.Client.CreateInstance(t.Context(), spec)
		if err == nil {
			continue
		}
		if !api.HasCode(err, api.CodeConflict) {
			t.Errorf("creating %s: %v", spec.Name, err)
			continue
		}
		existing, err := cloud.Client.GetInstanceByName(t.Context(), spec.Name)
		if err == nil {
			err = cloud.Client.DeleteInstance(t.Context(), existing.ID, 0)
		}
		if err != nil && !api.HasCode(err, api.CodeNotFound) {
			t.Errorf("deleting %s: %v", spec.Name, err)
		}
	}
}

func TestPageTokensExpire(t *testing.T) {
	clock := newClock()
	cloud := simtest.Start(t, cloudsim.Options{Clock: clock, Seed: cloudsim.DefaultSeed(4), Knobs: api.Knobs{PageSize: 2}})
	pages := 0
	err := cloud.Client.ListInstances(t.Context(), func([]api.Instance) error {
		pages++
		clock.Step(time.Minute)
		return nil
	})
	if pages != 1 || !api.HasCode(err, api.CodePageTokenExpired) {
		t.Errorf("a list that waits too long: %d pages, %v", pages, err)
	}
}

func TestErrorOfYieldEndsTheList(t *testing.T) {
	cloud := simtest.Start(t, cloudsim.Options{Seed: cloudsim.DefaultSeed(4), Knobs: api.Knobs{PageSize: 1}})
	if err := cloud.Client.ListInstances(t.Context(), func([]api.Instance) error { return context.Canceled }); err != context.Canceled {
		t.Errorf("got %v, want the error of yield as it is", err)
	}
	if n := cloud.Service.Counts().Received(api.OpListInstances); n != 1 {
		t.Errorf("%d pages were asked for, want 1", n)
	}
}
