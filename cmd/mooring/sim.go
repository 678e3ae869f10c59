package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/internal/tool/cli"
	"github.com/mooring-ccm/mooring/providers/sim/api"
	"github.com/mooring-ccm/mooring/providers/sim/cloudsim"
)

func newSim() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "The simulated cloud",
		Long:  "sim is the simulated cloud that the provider \"sim\" of cloud-controller-manager uses.\n\n" + cli.ExitCodes,
		Args:  cli.NoArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSimServe())
	return cmd
}

// simFlags are the flags of sim serve.
type simFlags struct {
	listen, stateFile, tokenFile, adminTokenFile string
	certFile, keyFile                            string
	seed                                         string
	instances                                    int
	faults                                       []string
	logFormat                                    string
	verbose                                      bool

	latency, jitter, listLag, instanceDelay, balancerDelay time.Duration
	pageSize, burst                                        int
	rate                                                   float64
}

func newSimServe() *cobra.Command {
	f := &simFlags{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the simulated cloud until interrupted",
		Long: `serve offers instances, zones, machine types, load balancers and routes by an HTTP JSON API under /v1, as
docs/reference/sim.md describes it. What it holds is in the state file and survives any end of the process; the
knobs are of the process, and can be changed while it runs by the admin API.

` + cli.ExitCodes,
		Example: `  head -c 16 /dev/urandom | base64 > token
  mooring sim serve --state-file cloud.db --token-file token --instances 12
  mooring sim serve --state-file cloud.db --token-file token --quota-rate 10 --quota-burst 20 --latency 50ms`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.serve(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8180", "`address` to serve on")
	flags.StringVar(&f.stateFile, "state-file", "", "`file` that holds the state; created when absent (required)")
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` with the bearer token of clients, read for every call (required)")
	flags.StringVar(&f.adminTokenFile, "admin-token-file", "", "`file` with the bearer token of the admin API, which is off without it")
	flags.StringVar(&f.certFile, "tls-cert-file", "", "`file` with the PEM certificate to serve with; plain HTTP without it")
	flags.StringVar(&f.keyFile, "tls-private-key-file", "", "`file` with the PEM key of the certificate")
	flags.StringVar(&f.seed, "seed", "", "YAML `file` with what a new state file starts with; see docs/reference/sim.md")
	flags.IntVar(&f.instances, "instances", 0, "how many instances a new state file starts with, if there is no --seed")
	flags.DurationVar(&f.latency, "latency", 0, "how long every call takes")
	flags.DurationVar(&f.jitter, "latency-jitter", 0, "random time on top of --latency, up to this much")
	flags.IntVar(&f.pageSize, "page-size", cloudsim.DefaultPageSize, "most elements of a page")
	flags.Float64Var(&f.rate, "quota-rate", 0, "calls per second that are allowed for long; 0 is no quota")
	flags.IntVar(&f.burst, "quota-burst", 1, "calls that are allowed at once with --quota-rate")
	flags.DurationVar(&f.listLag, "list-lag", 0, "how long lists lag behind writes")
	flags.DurationVar(&f.instanceDelay, "instance-delay", 0, "how long a new instance is pending")
	flags.DurationVar(&f.balancerDelay, "load-balancer-delay", 0, "how long a new load balancer is pending")
	flags.StringArrayVar(&f.faults, "fault", nil,
		"make calls fail, as operation=OPERATION,mode=MODE[,status=N][,skip=N][,count=N][,retry-after=DURATION]; may be repeated")
	flags.StringVar(&f.logFormat, "log-format", "text", "`format` of the log on standard error: text or json")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log faults too")
	return cmd
}

func (f *simFlags) serve(cmd *cobra.Command) error {
	options, certificate, faults, err := f.options(cmd)
	if err != nil {
		return cli.Usage(cmd, err)
	}
	cloud, err := cloudsim.Open(options)
	if err != nil {
		return err
	}
	for _, fault := range faults {
		if err := cloud.AddFault(fault); err != nil {
			return errors.Join(err, cloud.Close())
		}
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return errors.Join(fmt.Errorf("--listen: %w", err), cloud.Close())
	}
	if certificate != nil {
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12})
	}
	return errors.Join(cloud.Serve(cmd.Context(), listener), cloud.Close())
}

// options returns what the flags say, or everything that is wrong with them.
func (f *simFlags) options(cmd *cobra.Command) (cloudsim.Options, *tls.Certificate, []api.Fault, error) {
	var wrong []error
	options := cloudsim.Options{StateFile: f.stateFile, Knobs: f.knobs()}
	if f.stateFile == "" {
		wrong = append(wrong, errors.New("--state-file: required"))
	}
	options.Token = tokenSource("--token-file", f.tokenFile, true, &wrong)
	options.AdminToken = tokenSource("--admin-token-file", f.adminTokenFile, false, &wrong)
	if errs := cloudsim.ValidateKnobs(options.Knobs); len(errs) > 0 {
		wrong = append(wrong, fmt.Errorf("knobs: %w", errs.ToAggregate()))
	}
	options.Seed = f.seedOf(&wrong)
	certificate := f.certificate(&wrong)
	var faults []api.Fault
	for _, text := range f.faults {
		fault, err := cloudsim.ParseFault(text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--fault: %w", err))
		}
		faults = append(faults, fault)
	}
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	handlers := map[string]slog.Handler{
		"text": slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}),
		"json": slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}),
	}
	if handler, ok := handlers[f.logFormat]; ok {
		options.Logger = logr.FromSlogHandler(handler)
	} else {
		wrong = append(wrong, fmt.Errorf("--log-format: %q: must be text or json", f.logFormat))
	}
	return options, certificate, faults, errors.Join(wrong...)
}

func (f *simFlags) knobs() api.Knobs {
	wrap := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	knobs := api.Knobs{
		Latency: wrap(f.latency), LatencyJitter: wrap(f.jitter), PageSize: f.pageSize, ListLag: wrap(f.listLag),
		InstanceDelay: wrap(f.instanceDelay), LoadBalancerDelay: wrap(f.balancerDelay),
	}
	if f.rate != 0 {
		knobs.Quota = &api.Quota{RequestsPerSecond: f.rate, Burst: f.burst}
	}
	return knobs
}

func tokenSource(flag, path string, required bool, wrong *[]error) cloudsim.TokenSource {
	if path == "" {
		if required {
			*wrong = append(*wrong, fmt.Errorf("%s: required", flag))
		}
		return nil
	}
	source := cloudsim.TokenFile(path)
	if _, err := source(); err != nil {
		*wrong = append(*wrong, fmt.Errorf("%s: %w", flag, err))
	}
	return source
}

// maxInstances is how many instances cloudsim.DefaultSeed has addresses for.
const maxInstances = 60000

func (f *simFlags) seedOf(wrong *[]error) *api.Seed {
	switch {
	case f.seed != "" && f.instances != 0:
		*wrong = append(*wrong, errors.New("--seed, --instances: only one of them"))
	case f.instances < 0 || f.instances > maxInstances:
		*wrong = append(*wrong, fmt.Errorf("--instances: %d: must be 0 to %d", f.instances, maxInstances))
	case f.seed == "":
		return cloudsim.DefaultSeed(f.instances)
	default:
		data, err := os.ReadFile(f.seed)
		if err != nil {
			*wrong = append(*wrong, fmt.Errorf("--seed: %w", err))
			return nil
		}
		seed, errs := cloudsim.ReadSeed(data)
		if len(errs) > 0 {
			*wrong = append(*wrong, fmt.Errorf("--seed %s: %w", f.seed, errs.ToAggregate()))
		}
		return seed
	}
	return nil
}

func (f *simFlags) certificate(wrong *[]error) *tls.Certificate {
	if f.certFile == "" && f.keyFile == "" {
		return nil
	}
	if f.certFile == "" || f.keyFile == "" {
		*wrong = append(*wrong, errors.New("--tls-cert-file, --tls-private-key-file: both or none"))
		return nil
	}
	certificate, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
	if err != nil {
		*wrong = append(*wrong, fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", err))
		return nil
	}
	return &certificate
}
