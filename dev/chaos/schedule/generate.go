package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Size is how much there is of everything.
type Size struct {
	// Nodes and Services are how many there are at first. There are never more than twice as many.
	Nodes, Services int
	// Pause is the mean time between two operations.
	Pause time.Duration
	// Longest bounds how long an operation lasts, so a short schedule has more than one.
	Longest time.Duration
	// Calm says that there are no faults and no mass events, only users, kubelets and machines.
	Calm bool
}

// Short is the size of a run of seconds.
func Short() Size {
	return Size{Nodes: 6, Services: 5, Pause: 900 * time.Millisecond, Longest: 4 * time.Second}
}

// Usual is the size of a run of minutes or hours.
func Usual() Size {
	return Size{Nodes: 20, Services: 15, Pause: 2500 * time.Millisecond, Longest: 40 * time.Second}
}

// Soak is the size of a run that shows whether the managers grow.
func Soak() Size {
	return Size{Nodes: 2000, Services: 500, Pause: time.Second, Longest: 30 * time.Second, Calm: true}
}

// massEvery is how many operations on nodes or Services there are for one that concerns half of them at once.
const massEvery = 12

// generator draws operations. It knows roughly what exists, so most of them have something to act on.
type generator struct {
	random          *rand.Rand
	size            Size
	nodes, services []string
	made            int
}

// Generate returns the schedule of a seed. The same arguments give the same schedule.
func Generate(seed uint64, duration time.Duration, size Size) Schedule {
	g := &generator{random: rand.New(rand.NewPCG(seed, seed)), size: size}
	g.nodes, g.services = g.fresh("n", size.Nodes), g.fresh("s", size.Services)
	made := Schedule{
		{Verb: NodesJoin, Args: names(g.nodes)},
		{Verb: ServicesCreate, Args: names(g.services)},
		{Verb: Converge},
	}
	kinds, total := Kinds(), 0
	if size.Calm {
		kinds = workload
	}
	for _, kind := range kinds {
		total += kind.weight
	}
	for at := g.pause(); at < duration; at += g.pause() {
		kind := g.draw(kinds, total)
		args := kind.make(g)
		if args == nil {
			continue
		}
		g.made++
		made = append(made, Operation{At: at, Verb: kind.Name, Args: args})
	}
	return made
}

func (g *generator) pause() time.Duration {
	return (g.size.Pause/4 + time.Duration(g.random.Int64N(int64(g.size.Pause*3/2)))).Round(time.Millisecond)
}

func (g *generator) draw(all []Kind, total int) Kind {
	at, i := g.random.IntN(total), 0
	for ; at >= all[i].weight; i++ {
		at -= all[i].weight
	}
	return all[i]
}

// fresh returns names that nothing has had.
func (g *generator) fresh(prefix string, count int) []string {
	made := make([]string, count)
	for i := range made {
		g.made++
		made[i] = fmt.Sprintf("%s-%04d", prefix, g.made)
	}
	return made
}

// mass says whether an operation concerns half of all objects.
func (g *generator) mass() bool { return g.random.IntN(massEvery) == 0 && !g.size.Calm }

// some draws one to three of the names, or half of them now and then.
func (g *generator) some(of []string) []string {
	if len(of) == 0 {
		return nil
	}
	count := min(1+g.random.IntN(3), len(of))
	if g.mass() {
		count = max(1, len(of)/2)
	}
	drawn := slices.Clone(of)
	g.random.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	drawn = drawn[:count]
	slices.Sort(drawn)
	return drawn
}

// seconds draws how long something lasts: half a second up to a number of seconds.
func (g *generator) seconds(most int) string {
	longest := min(time.Duration(most)*time.Second, g.size.Longest)
	return (500*time.Millisecond + time.Duration(g.random.Int64N(int64(longest-500*time.Millisecond)))).Round(100 * time.Millisecond).String()
}

func (g *generator) one(of ...string) string { return of[g.random.IntN(len(of))] }

func names(of []string) map[string]string {
	if len(of) == 0 {
		return nil
	}
	return map[string]string{ArgNames: strings.Join(of, ",")}
}

func without(all, gone []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(gone, name) })
}

func joinNodes(g *generator) map[string]string {
	count := 1 + g.random.IntN(3)
	if g.mass() {
		count = g.size.Nodes / 2
	}
	made := g.fresh("n", min(count, 2*g.size.Nodes-len(g.nodes)))
	g.nodes = append(g.nodes, made...)
	return names(made)
}

func leaveNodes(g *generator) map[string]string {
	if len(g.nodes) < g.size.Nodes/2 {
		return nil
	}
	gone := g.some(g.nodes)
	g.nodes = without(g.nodes, gone)
	return names(gone)
}

func someNodes(most int) func(*generator) map[string]string {
	return func(g *generator) map[string]string {
		args := names(g.some(g.nodes))
		if args != nil {
			args[ArgFor] = g.seconds(most)
		}
		return args
	}
}

func dropNodes(g *generator) map[string]string { return names(g.some(g.nodes)) }

// oneNode draws one node at a time.
func oneNode(g *generator) map[string]string {
	if len(g.nodes) == 0 {
		return nil
	}
	return names([]string{g.one(g.nodes...)})
}

func createServices(g *generator) map[string]string {
	count := 1 + g.random.IntN(3)
	if g.mass() {
		count = g.size.Services
	}
	made := g.fresh("s", min(count, 2*g.size.Services-len(g.services)))
	g.services = append(g.services, made...)
	return names(made)
}

func deleteServices(g *generator) map[string]string {
	gone := g.some(g.services)
	g.services = without(g.services, gone)
	return names(gone)
}

func changeServices(g *generator) map[string]string { return names(g.some(g.services)) }

func demoteServices(g *generator) map[string]string {
	args := names(g.some(g.services))
	if args != nil {
		args[ArgFor] = g.seconds(10)
	}
	return args
}

func nothing(*generator) map[string]string { return map[string]string{} }

func during(most int) func(*generator) map[string]string {
	return func(g *generator) map[string]string { return map[string]string{ArgFor: g.seconds(most)} }
}

func countOnly(most int) func(*generator) map[string]string {
	return func(g *generator) map[string]string {
		return map[string]string{ArgCount: strconv.Itoa(1 + g.random.IntN(most))}
	}
}

// anyOperation stands for every operation of the cloud.
const anyOperation = "*"

// The operations of the simulated cloud by what they are for. All of the last three write.
var (
	listCalls     = []string{"ListInstances", "ListLoadBalancers", "ListRoutes"}
	instanceCalls = []string{"ListInstances", "WatchInstances", "GetInstance", "GetInstanceByName"}
	balancerCalls = []string{"GetLoadBalancer", "CreateLoadBalancer", "UpdateLoadBalancer", "ChangeTargets", "DeleteLoadBalancer"}
	cloudWrites   = []string{"CreateLoadBalancer", "UpdateLoadBalancer", "ChangeTargets", "DeleteLoadBalancer", "CreateRoute", "ReplaceRoute", "DeleteRoute"}
)

// CrashPoints are the writes at which a manager can be killed: those to the cloud by their operation, those to the API server by verb
// and resource.
func CrashPoints() []string {
	return append(slices.Clone(cloudWrites), "patch-nodes", "patch-nodes-status", "delete-nodes", "patch-services", "patch-services-status", "update-leases")
}

// anyCall draws calls: all, those of an operation, or those about one Service.
func anyCall(most int) func(*generator) map[string]string {
	return func(g *generator) map[string]string {
		args := map[string]string{ArgFor: g.seconds(most)}
		switch g.random.IntN(4) {
		case 0:
			args[ArgOperation] = anyOperation
		case 1:
			args[ArgOperation] = g.one(instanceCalls...)
		case 2:
			args[ArgOperation] = g.one(slices.Concat(balancerCalls, cloudWrites, listCalls)...)
		default:
			if len(g.services) == 0 {
				return nil
			}
			args[ArgOperation], args[ArgObject] = g.one(balancerCalls...), g.one(g.services...)
		}
		return args
	}
}

func lists(most int) func(*generator) map[string]string {
	return func(g *generator) map[string]string {
		return map[string]string{ArgOperation: g.one(listCalls...), ArgFor: g.seconds(most)}
	}
}

func refusals(g *generator) map[string]string {
	args := anyCall(20)(g)
	if args != nil {
		args[ArgCode] = g.one("401", "403", "404", "409", "429", "500", "503")
	}
	return args
}

func halfDone(g *generator) map[string]string {
	return map[string]string{ArgOperation: g.one(cloudWrites...), ArgFor: g.seconds(10)}
}

// quotas draws how many calls a second there may be: few for what a manager has to do.
func quotas(g *generator) map[string]string {
	return map[string]string{ArgOperation: anyOperation, ArgCount: strconv.Itoa(1 + g.random.IntN(5)), ArgFor: g.seconds(20)}
}

func apiRefusals(g *generator) map[string]string {
	return map[string]string{ArgCode: g.one("409", "422", "429", "500"), ArgFor: g.seconds(10)}
}

func ofReplica(most int) func(*generator) map[string]string {
	return func(g *generator) map[string]string {
		args := map[string]string{ArgReplica: g.one(Leader, Leader, Standby)}
		if most > 0 {
			args[ArgFor] = g.seconds(most)
		}
		return args
	}
}

func crashes(g *generator) map[string]string {
	return map[string]string{ArgWrite: g.one(CrashPoints()...), ArgSide: g.one(Before, After)}
}
