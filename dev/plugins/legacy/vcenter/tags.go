package vcenter

import (
	"context"
	"fmt"
	"net/url"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
)

// The categories of the tags that say in which region and zone a host is, and the region.
const (
	RegionCategory = "k8s-region"
	ZoneCategory   = "k8s-zone"
	Region         = "middle-earth"
)

// tag puts the datacenter into a region and each of its clusters into a zone, which has the cluster's name.
func (v *VCenter) tag(ctx context.Context) error {
	client := rest.NewClient(v.client.Client)
	if err := client.Login(ctx, url.UserPassword(User, Password)); err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	manager, finder := tags.NewManager(client), find.NewFinder(v.client.Client)
	for _, category := range []string{RegionCategory, ZoneCategory} {
		if _, err := manager.CreateCategory(ctx, &tags.Category{Name: category, Cardinality: "SINGLE"}); err != nil {
			return fmt.Errorf("create category %s: %w", category, err)
		}
	}
	datacenter, err := finder.Datacenter(ctx, "/"+Datacenter)
	if err != nil {
		return err
	}
	if err := attach(ctx, manager, RegionCategory, Region, datacenter.Common); err != nil {
		return err
	}
	clusters, err := finder.ClusterComputeResourceList(ctx, "/"+Datacenter+"/host/*")
	if err != nil {
		return err
	}
	for _, cluster := range clusters {
		if err := attach(ctx, manager, ZoneCategory, cluster.Name(), cluster.Common); err != nil {
			return err
		}
	}
	return client.Logout(ctx)
}

func attach(ctx context.Context, manager *tags.Manager, category, name string, to object.Common) error {
	id, err := manager.CreateTag(ctx, &tags.Tag{Name: name, CategoryID: category})
	if err != nil {
		return fmt.Errorf("create tag %s: %w", name, err)
	}
	if err := manager.AttachTag(ctx, id, to); err != nil {
		return fmt.Errorf("attach tag %s: %w", name, err)
	}
	return nil
}
