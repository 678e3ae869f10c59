package doctest

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	flagName   = regexp.MustCompile(`(?:^|[^\w-])(--[a-z][a-z0-9-]*)`)
	metricName = regexp.MustCompile(`\bmooring_[a-z0-9_]*[a-z0-9]\b`)
	// selection is a metric with labels, and with their values or without.
	selection = regexp.MustCompile(`(mooring_[a-z0-9_]+)\{([^}]*)\}`)
	series    = regexp.MustCompile(`_(bucket|count|sum)$`)
	// section is a command of the tool in its reference. defined is a flag in its list, or one that it shares with other commands.
	section = regexp.MustCompile(`(?m)^## mooring (.*)$`)
	defined = regexp.MustCompile("(?m)(?:^- |^Also |`, )`(?:(-[a-z]), )?(--[a-z-]+)")
)

// othersFlags are those of other programs that the pages name, and whose they are.
func othersFlags() map[string]string {
	return map[string]string{
		"--provider": "the demo", "--install": "the demo", "--keep": "the demo", "--cloud-fault": "the demo",
		"--field-selector": "kubectl", "--from-file": "kubectl", "--port": "kubectl", "--previous": "kubectl", "--replicas": "kubectl",
		"--type": "kubectl", "--namespace": "kubectl", "--current": "kubectl", "--user": "kubectl",
		"--minify": "kubectl", "--flatten": "kubectl", "--token": "kubectl", "--overwrite": "kubectl",
		"--raw": "kubectl", "--ignore-daemonsets": "kubectl", "--include": "curl",
		"--silent": "curl", "--fail": "curl", "--max-time": "curl", "--patch": "kubectl", "--subresource": "kubectl",
		"--run-service-proxy": "kube-router", "--run-loadbalancer": "kube-router", "--advertise-loadbalancer-ip": "kube-router",
		"--peer-router-ips": "kube-router",
		"--reuse-values":    "helm", "--reset-then-reuse-values": "helm", "--set": "helm", "--set-json": "helm", "--values": "helm",
		"--node-group-auto-discovery": "cluster-autoscaler", "--expander": "cluster-autoscaler", "--force-delete-unregistered-nodes": "cluster-autoscaler",
		"--cordon-node-before-terminating": "cluster-autoscaler",
		"--hostname-override":              "kubelet", "--node-ip": "kubelet", "--node-labels": "kubelet", "--provider-id": "kubelet",
		"--tags": "a vendor's main", "--config": "kubeadm", "--node-monitor-grace-period": "kube-controller-manager", "--healthz-bind-address": "kube-proxy", "--kube-proxy-arg": "k3s", "--lb-class": "MetalLB",
		"--config-patch": "talosctl", "--disable-cloud-controller": "k3s", "--disable": "k3s", "--kubelet-arg": "k3s",
		"--release": "the report of the benchmark", "--role": "openstack", "--decode": "base64", "--check": "sha256sum",
		"--key": "cosign", "--insecure-ignore-tlog": "cosign", "--signature": "cosign",
		"--nodes":                         "cluster-autoscaler",
		"--kubelet-certificate-authority": "kube-apiserver", "--kubelet-insecure-tls": "metrics-server",
		"--cluster-signing-cert-file": "kube-controller-manager", "--cluster-signing-key-file": "kube-controller-manager", "--cluster-signing-duration": "kube-controller-manager",
		"--pdu": "a command for power states", "--outlet": "a command for power states",
	}
}

// text is the text of a page, by its path from the root of the project.
func text(t *testing.T, path ...string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, filepath.Join(path...)))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// guides are the pages that a user of this version reads, by their paths. They do not include the benchmarks, whose program has its own flags.
func guides(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{"README.md": text(t, "README.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if strings.HasSuffix(name, ".md") && !strings.HasPrefix(name, "docs/benchmarks") {
			found[name] = text(t, name)
		}
		return err
	})
	if err != nil || len(found) < 30 {
		t.Fatalf("found %d pages (%v): this test looks in the wrong place", len(found), err)
	}
	return found
}

// flagsOf are the flags of each command of the tool, as its reference has them.
func flagsOf(t *testing.T) map[string]map[string]bool {
	t.Helper()
	reference, flags := text(t, "docs/reference/cli.md"), map[string]map[string]bool{}
	at := section.FindAllStringSubmatchIndex(reference, -1)
	for i, found := range at {
		end := len(reference)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		of := map[string]bool{"--help": true, "-h": true}
		for _, row := range defined.FindAllStringSubmatch(reference[found[1]:end], -1) {
			of[row[1]], of[row[2]] = true, true
		}
		flags[reference[found[2]:found[3]]] = of
	}
	if len(flags) < 5 || !flags["plan"]["--exit-code"] || !flags["plan"]["-o"] || !flags["sim serve"]["--seed"] {
		t.Fatalf("the reference has %d commands: this test reads it wrongly", len(flags))
	}
	return flags
}

// TestNamesExist knows every flag and every metric that a page names, from the references that are generated of the programs.
func TestNamesExist(t *testing.T) {
	known, others := map[string]bool{}, othersFlags()
	for _, found := range flagName.FindAllStringSubmatch(text(t, "docs/reference/flags.md"), -1) {
		known[found[1]] = true
	}
	for _, flags := range flagsOf(t) {
		maps.Copy(known, flags)
	}
	metrics, named := text(t, "docs/reference/metrics.md"), map[string]bool{}
	for path, page := range guides(t) {
		for _, found := range flagName.FindAllStringSubmatch(page, -1) {
			named[found[1]] = true
			if !known[found[1]] && others[found[1]] == "" {
				t.Errorf("%s names the flag %s, which nothing has; if it is another program's, say so here", path, found[1])
			}
		}
		for _, name := range metricName.FindAllString(page, -1) {
			if !strings.Contains(metrics, "`"+series.ReplaceAllString(name, "")+"`") {
				t.Errorf("%s names the metric %s, which the reference does not have", path, name)
			}
		}
	}
	for path, page := range guides(t) {
		for _, found := range selection.FindAllStringSubmatch(page, -1) {
			row := regexp.MustCompile("(?m)^- `" + series.ReplaceAllString(found[1], "") + "` .*$").FindString(metrics)
			for part := range strings.SplitSeq(found[2], ",") {
				label, value, _ := strings.Cut(part, "=")
				if !strings.Contains(row, "`"+label+"`") || !strings.Contains(row, strings.Trim(value, `"`)) {
					t.Errorf("%s selects %s, which the reference does not have", path, found[0])
				}
			}
		}
	}
	for flag, owner := range others {
		if !named[flag] {
			t.Errorf("no page names %s of %s", flag, owner)
		}
	}
}

// TestCommandsOfTheToolAreValid holds each command line of the tool and the daemon to the flags of that very command.
func TestCommandsOfTheToolAreValid(t *testing.T) {
	flags := flagsOf(t)
	flags["cloud-controller-manager"] = map[string]bool{}
	for _, found := range flagName.FindAllStringSubmatch(text(t, "docs/reference/flags.md"), -1) {
		flags["cloud-controller-manager"][found[1]] = true
	}
	tried := 0
	for path, page := range guides(t) {
		for _, command := range Commands(page) {
			words, ok := Ours(command)
			if !ok {
				continue
			}
			tried++
			name := strings.Join(words[:min(2, len(words))], " ")
			if flags[name] == nil {
				name = words[0]
			}
			if name == "completion" { // of the library that reads the command line
				continue
			}
			if flags[name] == nil {
				t.Errorf("%s: %q: there is no such command", path, command)
				continue
			}
			for _, word := range words {
				flag, _, _ := strings.Cut(word, "=")
				if strings.HasPrefix(word, "-") && !flags[name][flag] {
					t.Errorf("%s: %q: %s has no flag %s", path, command, name, flag)
				}
			}
		}
	}
	if tried < 20 {
		t.Errorf("found %d commands: this test looks in the wrong place", tried)
	}
}

// TestShippedManifestsAreNamed finds manifests that no page mentions.
func TestShippedManifestsAreNamed(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "deploy", "manifests", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no manifests: %v", err)
	}
	pages := strings.Join(slices.Collect(maps.Values(guides(t))), "\n")
	for _, file := range files {
		if !strings.Contains(pages, filepath.Base(file)) {
			t.Errorf("no page names %s", file)
		}
	}
}

func TestOurs(t *testing.T) {
	for command, want := range map[string][]string{
		"bin/mooring status --watch":                         {"status", "--watch"},
		"mooring sim serve --seed=x &":                       {"sim", "serve", "--seed=x"},
		"kubectl mooring status --context=blue":              {"status", "--context=blue"},
		"./mooring-tiny conformance --list":                  {"conformance", "--list"},
		"mooring plan -o json | jq -r '.intents[]'":          {"plan", "-o", "json"},
		"bin/cloud-controller-manager --v=2 > log":           {"cloud-controller-manager", "--v=2"},
		"kubectl get nodes":                                  nil,
		"helm install mooring-dry-run deploy/charts/mooring": nil,
		"mooring": nil,
	} {
		if words, ok := Ours(command); ok != (want != nil) || !slices.Equal(words, want) {
			t.Errorf("%s: %q, %t", command, words, ok)
		}
	}
}
