package attacks

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Options says what to examine, and how.
type Options struct {
	// Program holds the absolute path of purser.
	Program string
	// Config holds its configuration as JSON. Environ holds its environment in the form of
	// os.Environ.
	Config  []byte
	Environ []string
	// Only lists names of attacks or groups; empty means all. More adds every remaining scenario.
	Only []string
	More bool

	// These functions are called when set. Begin is called before the first attack, with a report
	// that holds only the differences from the user's installation. Tell is called with each finding, in the order of
	// the attacks. Progress is called with the number of finished attacks.
	Begin    func(Report)
	Tell     func(Finding)
	Progress func(over, of int)
}

// examination is one run of the attacks.
type examination struct {
	*world
	more bool
	// main is the purser that most attacks target. probe is its first customer, who buys nothing.
	main  *purser
	probe *player
	// neutral is a policy for customers whom the user's own limits would keep from attacking; nil
	// when the limits do not.
	neutral *policy.Policy
	// noProxy says why no customer can pay through the proxy; "" when customers can.
	noProxy string
	// slots bounds the number of busy customers.
	slots chan struct{}
}

// atOnce is the number of customers that may be busy at once.
const atOnce = 12

// Run examines a purser until all attacks are made or ctx ends. An error means that the report is
// empty or incomplete.
func Run(ctx context.Context, o Options) (Report, error) {
	began := time.Now()
	report := Report{TestBuild: isTestBuild(o.Program), Changes: []Change{}, Findings: []Finding{}}
	list, err := selectAttacks(attacks(o.More), o.Only)
	if err != nil {
		return report, err
	}
	dir, err := os.MkdirTemp("", "purser-attack-")
	if err != nil {
		return report, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	e := &examination{more: o.More, slots: make(chan struct{}, atOnce)}
	if e.world, err = newWorld(ctx, o.Program, dir, o.Config, environmentOf(o.Environ)); err != nil {
		return report, unfinished(ctx, err)
	}
	err = e.prepare(ctx)
	if err == nil {
		report.Changes = e.main.changes
		if o.Begin != nil {
			o.Begin(report)
		}
		e.attackAll(ctx, list, o, &report)
	}
	report.Seconds = time.Since(began).Seconds()
	return report, errors.Join(unfinished(ctx, err), e.Close())
}

// isTestBuild reports whether Go built the program with the tag of package failpoint. A program that
// Go did not build, such as a script in front of purser, is none.
func isTestBuild(program string) bool {
	info, err := buildinfo.ReadFile(program)
	return err == nil && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == "-tags" && slices.Contains(strings.Split(s.Value, ","), "failpoints")
	})
}

// unfinished adds the reason why ctx ended, if it has ended.
func unfinished(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil:
		return err
	case err == nil:
		return fmt.Errorf("not finished: %w", context.Cause(ctx))
	}
	return fmt.Errorf("not finished: %w: %w", context.Cause(ctx), err)
}

// prepare starts the purser, and finds the user's limits that would block the attacks.
func (e *examination) prepare(ctx context.Context) (err error) {
	if e.main, err = e.launch(ctx, "main", ""); err != nil {
		return err
	}
	if e.probe, err = e.enroll(ctx, e.main, nil); err != nil {
		return err
	}
	switch limits := e.probe.inForce; {
	case e.main.proxy == "":
		e.noProxy = "no site has purser_proxy"
	case len(limits.Doors) > 0 && !slices.Contains(limits.Doors, policy.DoorProxy):
		e.noProxy = "keys may not pay through the proxy (doors)"
	case len(limits.AllowHosts) > 0 || len(limits.AllowPayees) > 0 || limits.PerMinute != nil && *limits.PerMinute > 0 ||
		len(limits.DenyHosts) > 0 || len(limits.Hosts) > 0:
		// The attackers are not among the user's sellers, so these lists would end every attack at
		// once. With any rule for hosts, the API pays named payees only.
		never := 0
		e.neutral = &policy.Policy{PerMinute: &never}
		if len(limits.AllowHosts)+len(limits.AllowPayees)+len(limits.DenyHosts)+len(limits.Hosts) > 0 {
			e.neutral.AllowPayees = []x402.Address{e.probe.world.PayTo}
		}
		if len(limits.AllowHosts)+len(limits.AllowPayees) > 0 {
			e.neutral.AllowHosts = []string{"127.0.0.1"}
		}
		e.main.changed("who may be paid", "the attackers, as often as they ask", "allow_hosts, allow_payees, rules for hosts or per_minute")
	}
	return nil
}

// attackAll makes all attacks at once, and those marked last at the end. It reports the findings in
// order.
func (e *examination) attackAll(ctx context.Context, list []attack, o Options, report *Report) {
	findings, over := make([]Finding, len(list)), make([]chan struct{}, len(list))
	for i := range over {
		over[i] = make(chan struct{})
	}
	var n atomic.Int64
	runOne := func(i int) {
		defer close(over[i])
		findings[i] = e.attack(ctx, list[i])
		if o.Progress != nil {
			o.Progress(int(n.Add(1)), len(list))
		}
	}
	var all, first sync.WaitGroup
	defer all.Wait()
	for i, a := range list {
		if !a.last {
			first.Go(func() { runOne(i) })
		}
	}
	all.Go(func() {
		first.Wait()
		for i, a := range list {
			if a.last {
				all.Go(func() { runOne(i) })
			}
		}
	})
	for i := range list {
		<-over[i]
		report.add(findings[i])
		if o.Tell != nil {
			o.Tell(findings[i])
		}
	}
}

// attack makes one attack and returns its finding.
func (e *examination) attack(ctx context.Context, a attack) Finding {
	began := time.Now()
	var got outcome
	var err error
	switch {
	case a.last && !slices.Contains(e.running(), e.main): // it has ended by itself, so nothing can be said
		err = fmt.Errorf("the scratch purser has ended; it said:\n%s", e.main.lastSaid())
	case a.run == nil:
		got, err = e.playAll(ctx, a)
	case a.proxied && e.noProxy != "":
		got = off("%s", e.noProxy)
	default:
		got, err = a.run(ctx, e)
	}
	if err = cmp.Or(err, ctx.Err()); err != nil {
		got = outcome{Unmade, a.tries + ": " + err.Error(), nil}
	}
	return Finding{
		Group: a.group, Attack: a.name, Result: got.result, Says: got.says, Story: got.story,
		Seconds: float64(time.Since(began).Milliseconds()) / 1000,
	}
}

// gather does something with each of a list, at most limit at once, or all when limit is negative.
// It joins the stories, and stops at the first error.
func gather[T any](
	ctx context.Context, limit int, list []T, do func(ctx context.Context, i int, one T) ([]string, error),
) ([]string, error) {
	stories := make([][]string, len(list))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(limit)
	for i, one := range list {
		all.Go(func() (err error) {
			stories[i], err = do(ctx, i, one)
			return err
		})
	}
	err := all.Wait()
	return slices.Concat(stories...), err
}

// running returns the pursers that have not ended.
func (e *examination) running() (list []*purser) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.pursers {
		p.mu.Lock()
		done := p.done
		p.mu.Unlock()
		if done == nil {
			continue
		}
		select {
		case <-done:
		default:
			list = append(list, p)
		}
	}
	return list
}

// customers returns the customers of the pursers that have not ended.
func (e *examination) customers() (list []*player) {
	for _, p := range e.running() {
		e.mu.Lock()
		for _, one := range e.players {
			if one.purser == p && one.customer != nil {
				list = append(list, one)
			}
		}
		e.mu.Unlock()
	}
	return list
}
