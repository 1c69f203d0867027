package caddymodule

// No Caddy here: it resolves the options that two modules have in common.

import (
	"cmp"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/proxy"
)

// DoorOptions say who pays for the requests of a reverse proxy, and how.
type DoorOptions struct {
	// Key is a reference to the API key that pays. An unknown key is created, with a wallet. A placeholder of
	// requests, such as {http.request.header.X-Agent}, makes each client bring its own key, which must exist.
	// Default: the app's key, else the key of `purser exec`.
	Key string `json:"key,omitempty"`
	// KeyFile is the file of that key. Default: none.
	KeyFile string `json:"key_file,omitempty"`
	// Task is the label of the budget that payments fall under: 1 to 64 characters of
	// A-Z a-z 0-9 . _ -. It may have placeholders of requests, such as {http.request.uri.path.0}; while one is
	// empty, there is no label. Default: none.
	Task string `json:"task,omitempty"`
	// AllowHTTP lists upstreams, "name" or "name:port", that are paid over plain http, where a
	// machine on the path can forge what is asked for. Default: none but those with a
	// loopback or private address.
	AllowHTTP []string `json:"allow_http,omitempty"`
	// ChallengeHeaders are further response headers that carry challenges.
	ChallengeHeaders []string `json:"challenge_header,omitempty"`
	// MaxReplay is the part of a request body that is kept in memory at most, to be sent again with a
	// payment, such as "1MiB"; the rest goes into a temporary file. Default: 1 MiB.
	MaxReplay string `json:"max_replay,omitempty"`
	// MaxSpool is the longest request body that is kept with the help of a file, or off;
	// larger requests are not paid. Default: 64 MiB.
	MaxSpool string `json:"max_spool,omitempty"`
	// MaxFailures is the largest number of payments in a row to one upstream that bring no answer, an error or
	// another 402, before new ones are declined for a while, or off. Default: 5.
	MaxFailures string `json:"max_failures,omitempty"`
}

// payingDoor holds the resolved DoorOptions.
type payingDoor struct {
	secret     string // of a key of its own; empty: the app's
	keyFrom    string // the placeholder for the key of each request; empty: it is always the same
	keyHeader  string // the header that this placeholder stands for, if it does
	task       string
	taskVaries bool // it has placeholders of requests
	maxReplay  int64
	maxSpool   int64
	failures   int
}

var doorKeyOption = setting.Named("transport purser key")

// resolve checks the options.
func (o DoorOptions) resolve() (d payingDoor, err error) {
	task := setting.Named("transport purser task")
	if err = o.resolveKey(&d); err != nil {
		return d, err
	}
	err = cmp.Or(
		setting.Set(&d.task, func(given string) (string, error) { return perRequest(task, given) }, o.Task),
		setting.Set(&d.maxReplay, setting.Named("transport purser max_replay").Size, o.MaxReplay),
		setting.Set(&d.maxSpool, setting.Named("transport purser max_spool").SizeOrOff, o.MaxSpool),
		setting.Set(&d.failures, setting.Named("transport purser max_failures").Most, o.MaxFailures),
	)
	d.taskVaries = requestPlaceholder.MatchString(d.task)
	if err == nil && d.task != "" && !d.taskVaries && !policy.ValidTask(d.task) {
		err = task.Errorf("%q is not 1 to 64 characters of A-Z a-z 0-9 . _ -", d.task)
	}
	return d, err
}

// resolveOptions checks the options, and replaces the references in lists.
func (h *Transport) resolveOptions() (err error) {
	h.door, err = h.resolve()
	return cmp.Or(err,
		setting.Set(&h.AllowHTTP, setting.Named("transport purser allow_http").All, h.AllowHTTP),
		setting.Set(&h.ChallengeHeaders, setting.Named("transport purser challenge_header").All, h.ChallengeHeaders),
	)
}

// payOptions are the options as package proxy takes them.
func (o DoorOptions) payOptions(d payingDoor, bounds admission.Options, declined func(policy.Door, pay.Decline)) proxy.PayOptions {
	return proxy.PayOptions{
		MaxReplay: d.maxReplay, MaxSpool: d.maxSpool, Protocols: protocol.Spoken(o.ChallengeHeaders...), AllowHTTP: o.AllowHTTP,
		MaxFailures: d.failures, Admission: bounds, Observer: metrics.Door{Door: policy.DoorTransport, Heard: declined, Version: Version()},
	}
}
