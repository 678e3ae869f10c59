// Package managers starts cloud controller managers inside a bubble of testing/synctest: Mooring and the reference of k8s.io/cloud-provider,
// on any http.RoundTripper and with any cloudprovider.Interface. One Incarnation is one process from its start to its end; a Replica starts
// the next one as a kubelet does. Each manager has its own bubble. Prepare replaces globals that both share and is called before the first.
//
// Of both managers is replaced:
//   - utilruntime.ErrorHandlers: one of them sleeps until a global time of the last error, which another bubble may have set;
//   - klog and controller-runtime log to one logger, because klog's flush daemon never ends, and its flags belong to the process;
//   - klog.OsExit panics, and the panic ends the incarnation if a constructor or a call of the plugin caused it;
//   - SIGKILL, a fatal error of Go and an uncaught panic are Incarnation.Kill: requests fail, watches break, contexts end, and calls of the
//     plugin neither begin nor return before Release. A panic of the plugin is caught before the reference sees it, and kills. Mooring
//     gets the panic itself, because it recovers. A panic in a goroutine that the plugin started ends the test;
//   - wait.Jitter draws from the clock instead of Go's global source;
//   - --secure-port=0: no health checks, metrics and profiles are served, so no kubelet restarts a manager by its liveness probe;
//   - --leader-elect=false unless the flags say otherwise.
//
// Of the reference:
//   - options.CloudControllerManagerOptions.Config runs with --master; then the clients and informers are built once more on the transport;
//   - listers of nodes sort, because the order of a map would be another in each run;
//   - app.Run is private below its HTTP server: reference.go repeats run and startControllers. Constructors are
//     app.DefaultInitFuncConstructors, in the order of names instead of a map's;
//   - leader election runs under the context of the incarnation instead of an endless one; a lost lease ends the incarnation;
//   - no /configz, whose registry is global; no webhooks, no leader migration;
//   - SIGTERM ends it like SIGKILL, as the process does without a handler.
//
// Of Mooring, which runs by ccm.NewCommand with internal/embedded in its context:
//   - the connection to the API server and the logger come from that context; flags of logging set nothing;
//   - no cloud config is followed, because no flag names one;
//   - controller-runtime has Start wait for a warm-up by a mutex, which would stop the clock; kit.Controller waits by a channel before that.
//
// A draw in a process of its own repeats itself, except for:
//   - the scheduler of Go, which interrupts a goroutine after 10 ms of real time. A busy machine may change the order of goroutines. The order of
//     maps and select then changes too, because the process draws both from the same bytes;
//   - crypto/rand, from which the identities of an election come;
//   - tools/record of client-go, which tries an event again after a random time if its first write has failed;
//   - without a process of its own, as in tests: the order in which the reference updates load balancers, because it iterates over a map.
//
// Goroutines of an ended incarnation wind down in virtual time. Release lets calls of its plugin go and waits for that.
package managers
