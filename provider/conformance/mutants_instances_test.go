package conformance_test

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/mooring-ccm/mooring/provider"
)

type (
	right2 = cloudprovider.InstancesV2
	right1 = cloudprovider.Instances
)

// changed returns a mutation of what InstanceMetadata answers.
func changed(change func(*cloudprovider.InstanceMetadata, error) (*cloudprovider.InstanceMetadata, error)) func(*mutant) {
	return func(m *mutant) {
		m.v2.metadata = func(ctx context.Context, right right2, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
			return change(right.InstanceMetadata(ctx, node))
		}
	}
}

// denied returns a mutation of whether an instance exists.
func denied(exists func(ctx context.Context, right right2, node *v1.Node) (bool, error)) func(*mutant) {
	return func(m *mutant) { m.v2.exists = exists }
}

func instanceMutations() []mutation {
	return []mutation{
		{"provider-named", "the name is empty", func(m *mutant) { m.name = func() string { return "" } }},
		{"provider-named", "the name changes", func(m *mutant) {
			m.name = func() string { return fmt.Sprintf("sim%d", m.count()) }
		}},
		{"provider-capabilities-constant", "the capabilities change", func(m *mutant) {
			m.capabilities = func(c *provider.Capabilities) { c.RouteWrites = m.count() }
		}},
		{"provider-schemes-cover", "another scheme is declared", func(m *mutant) {
			m.capabilities = func(c *provider.Capabilities) { c.ProviderIDSchemes = []string{"elsewhere"} }
		}},
		{"instances-found-by-name", "an instance is not found by name",
			denied(func(ctx context.Context, right right2, node *v1.Node) (bool, error) {
				if node.Spec.ProviderID == "" {
					return false, nil
				}
				return right.InstanceExists(ctx, node)
			})},
		{"instances-found-by-provider-id", "only the name is looked at", func(m *mutant) {
			m.v2.metadata = func(ctx context.Context, right right2, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
				node = node.DeepCopy()
				node.Spec.ProviderID = ""
				return right.InstanceMetadata(ctx, node)
			}
		}},
		{"instances-metadata-complete", "addresses come twice",
			changed(func(metadata *cloudprovider.InstanceMetadata, err error) (*cloudprovider.InstanceMetadata, error) {
				metadata.NodeAddresses = append(metadata.NodeAddresses, metadata.NodeAddresses...)
				return metadata, err
			})},
		{"instances-missing", "absence is a plain error",
			changed(func(metadata *cloudprovider.InstanceMetadata, err error) (*cloudprovider.InstanceMetadata, error) {
				if err != nil {
					err = errors.New(err.Error())
				}
				return metadata, err
			})},
		{"instances-deleted", "everything exists",
			denied(func(context.Context, right2, *v1.Node) (bool, error) { return true, nil })},
		{"instances-stopped-exist", "what is shut down does not exist",
			denied(func(ctx context.Context, right right2, node *v1.Node) (bool, error) {
				shutdown, err := right.InstanceShutdown(ctx, node)
				return !shutdown, err
			})},
		{"instances-foreign-id", "what is foreign does not exist", denied(failureIsAbsence)},
		{"instances-failure-is-no-absence", "a failure is reported as absence", denied(failureIsAbsence)},
		{"instances-failure-is-no-absence", "a failure is reported as InstanceNotFound",
			changed(func(metadata *cloudprovider.InstanceMetadata, err error) (*cloudprovider.InstanceMetadata, error) {
				if err != nil {
					err = cloudprovider.InstanceNotFound
				}
				return metadata, err
			})},
		{"instances-throttled", "the reason of a failure is dropped",
			changed(func(metadata *cloudprovider.InstanceMetadata, err error) (*cloudprovider.InstanceMetadata, error) {
				if err != nil {
					err = errors.New("cannot get the instance")
				}
				return metadata, err
			})},
		{"instances-context", "the end of the context is reported as absence", denied(failureIsAbsence)},
		{"instances-deadline", "the deadline is ignored",
			denied(func(ctx context.Context, right right2, node *v1.Node) (bool, error) {
				return right.InstanceExists(context.WithoutCancel(ctx), node)
			})},
	}
}

// failureIsAbsence takes every error for the absence of the instance.
func failureIsAbsence(ctx context.Context, right right2, node *v1.Node) (bool, error) {
	exists, err := right.InstanceExists(ctx, node)
	return exists && err == nil, nil
}

func legacyMutations() []mutation {
	return []mutation{
		{"legacy-id", "the ID is of something else", func(m *mutant) {
			m.legacy.id = func(id string, err error) (string, error) { return id + "0", err }
		}},
		{"legacy-missing", "InstanceNotFound is wrapped", func(m *mutant) {
			m.legacy.id = func(id string, err error) (string, error) { return id, fmt.Errorf("instance: %w", err) }
		}},
		{"legacy-ways-agree", "types differ by way", func(m *mutant) { m.legacy.typeByID = func() string { return "another" } }},
		{"legacy-deleted", "everything exists", func(m *mutant) {
			m.legacy.exists = func(context.Context, right1, string) (bool, error) { return true, nil }
		}},
		{"legacy-stopped-exist", "what is shut down does not exist", func(m *mutant) {
			m.legacy.exists = func(ctx context.Context, right right1, providerID string) (bool, error) {
				shutdown, err := right.InstanceShutdownByProviderID(ctx, providerID)
				return !shutdown, err
			}
		}},
		{"legacy-failure-is-no-absence", "a failure is reported as absence", func(m *mutant) {
			m.legacy.exists = func(ctx context.Context, right right1, providerID string) (bool, error) {
				exists, err := right.InstanceExistsByProviderID(ctx, providerID)
				return exists && err == nil, nil
			}
		}},
		{"legacy-context", "the end of the context is reported as absence", func(m *mutant) {
			m.legacy.exists = func(ctx context.Context, right right1, providerID string) (bool, error) {
				exists, err := right.InstanceExistsByProviderID(ctx, providerID)
				return exists && err == nil, nil
			}
		}},
		{"legacy-agrees-with-v2", "an address is left out", func(m *mutant) {
			m.legacy.addresses = func(addresses []v1.NodeAddress) []v1.NodeAddress { return addresses[1:] }
		}},
		{"zones-ways-agree", "regions differ by way", func(m *mutant) { m.zones.region = "elsewhere" }},
	}
}

// pages returns a mutation of the pages of a list.
func pages(change func(m *mutant, page []provider.Instance) []provider.Instance) func(*mutant) {
	return func(m *mutant) {
		m.capabilities = func(c *provider.Capabilities) {
			list := c.ListInstances
			c.ListInstances = func(ctx context.Context, yield func([]provider.Instance) error) error {
				return list(ctx, func(page []provider.Instance) error { return yield(change(m, page)) })
			}
		}
	}
}

// listing returns a mutation of a list as a whole.
func listing(list func(ctx context.Context, right provider.ListInstancesFunc, yield func([]provider.Instance) error) error,
) func(*mutant) {
	return func(m *mutant) {
		m.capabilities = func(c *provider.Capabilities) {
			right := c.ListInstances
			c.ListInstances = func(ctx context.Context, yield func([]provider.Instance) error) error { return list(ctx, right, yield) }
		}
	}
}

func listMutations() []mutation {
	return []mutation{
		{"list-complete", "the last of a page is left out", pages(func(_ *mutant, page []provider.Instance) []provider.Instance {
			return page[:len(page)-1]
		})},
		{"list-complete", "instances come twice", pages(func(_ *mutant, page []provider.Instance) []provider.Instance {
			return append(page, page...)
		})},
		{"list-agrees", "types differ", pages(func(_ *mutant, page []provider.Instance) []provider.Instance {
			for i := range page {
				page[i].InstanceType = "another"
			}
			return page
		})},
		{"list-stopped", "what is shut down is left out", pages(func(_ *mutant, page []provider.Instance) []provider.Instance {
			var running []provider.Instance
			for _, instance := range page {
				if instance.State == provider.InstanceRunning {
					running = append(running, instance)
				}
			}
			return running
		})},
		{"list-deleted", "what was deleted stays", pages(func(m *mutant, page []provider.Instance) []provider.Instance {
			for _, instance := range m.created {
				ghost := provider.Instance{State: provider.InstanceRunning}
				ghost.ProviderID = instance.ProviderID
				page = append(page, ghost)
			}
			return page
		})},
		{"list-yield-error", "an error of yield is dropped",
			listing(func(ctx context.Context, right provider.ListInstancesFunc, yield func([]provider.Instance) error) error {
				return right(ctx, func(page []provider.Instance) error { _ = yield(page); return nil })
			})},
		{"list-failure", "a failure is reported as a short list",
			listing(func(ctx context.Context, right provider.ListInstancesFunc, yield func([]provider.Instance) error) error {
				_ = right(ctx, yield)
				return nil
			})},
		{"list-context", "the end of the context ends the list as if it were whole",
			listing(func(ctx context.Context, right provider.ListInstancesFunc, yield func([]provider.Instance) error) error {
				if err := right(ctx, yield); ctx.Err() == nil {
					return err
				}
				return nil
			})},
	}
}

// reporting returns a mutation of a watch: of its events, of which report is asked whether they are reported, and of its error.
func reporting(report func(marks int, event provider.InstanceEvent) bool, end func(error) error) func(*mutant) {
	return func(m *mutant) {
		m.capabilities = func(c *provider.Capabilities) {
			watch := c.WatchInstances
			c.WatchInstances = func(ctx context.Context, yield func(provider.InstanceEvent) error) error {
				marks := 0
				return end(watch(ctx, func(event provider.InstanceEvent) error {
					reported := report(marks, event)
					if event.Kind == provider.InstancesCurrent {
						marks++
					}
					if !reported {
						return nil
					}
					return yield(event)
				}))
			}
		}
	}
}

func watchMutations() []mutation {
	all := func(int, provider.InstanceEvent) bool { return true }
	asItIs := func(err error) error { return err }
	return []mutation{
		{"watch-begins-whole", "what exists is not reported", reporting(func(marks int, event provider.InstanceEvent) bool {
			return marks > 0 || event.Kind == provider.InstancesCurrent
		}, asItIs)},
		{"watch-reports-changes", "deletions are not reported", reporting(func(_ int, event provider.InstanceEvent) bool {
			return event.Kind != provider.InstanceDeleted
		}, asItIs)},
		{"watch-marks", "there is one mark only", reporting(func(marks int, event provider.InstanceEvent) bool {
			return marks == 0 || event.Kind != provider.InstancesCurrent
		}, asItIs)},
		{"watch-yield-error", "an error of yield is another then", reporting(all, func(error) error { return errors.New("ended") })},
		{"watch-context", "an end is reported as success", reporting(all, func(error) error { return nil })},
	}
}

var _ provider.Capable = (*mutant)(nil)
