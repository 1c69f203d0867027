package endpoint_test

import (
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/endpoint"
)

func TestScrub(t *testing.T) {
	t.Parallel()
	const long = "0123456789abcdefABCDEF"
	for _, c := range []struct{ url, text, want string }{
		{"https://rpc.example/v2/" + long, "no project " + strings.ToUpper(long) + "!", "no project [redacted]!"},
		{"https://rpc.example/?apikey=" + long, long + long, "[redacted][redacted]"},
		{"https://user:hunter22@rpc.example", "user hunter22", "user [redacted]"},
		{"https://token1234@rpc.example", "İ token1234 İ", "İ [redacted] İ"},
		{"https://rpc.example/platform/v2/x402", "platform v2", "platform v2"},
		{"https://rpc.example", "extra MY-SECRET in", "extra [redacted] in"},
		{"https://rpc.example", "", ""},
	} {
		e, err := endpoint.New(endpoint.Options{URL: c.url, Setting: "X"})
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Scrub(c.text, "my-secret", "in", ""); got != c.want {
			t.Errorf("%s: %q became %q, want %q", c.url, c.text, got, c.want)
		}
	}
}
