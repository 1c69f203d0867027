package logs

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// shown returns what an encoder writes for an entry.
func shown(t *testing.T, e zapcore.Encoder, level zapcore.Level, logger, message string, fields ...zap.Field) string {
	t.Helper()
	out, err := e.EncodeEntry(zapcore.Entry{Level: level, LoggerName: logger, Message: message, Time: time.Unix(0, 0)}, fields)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Free()
	_, text, _ := strings.Cut(out.String(), "  ")
	return text
}

func TestConsoleIsForPeople(t *testing.T) {
	t.Parallel()
	const info, warn = zapcore.InfoLevel, zapcore.WarnLevel
	for _, c := range []struct {
		level           zapcore.Level
		logger, message string
		fields          []zap.Field
		want            string
	}{
		{info, "purser", "payment settled", []zap.Field{
			zap.String("payment", "0199"), zap.String("was", "open"), zap.String("amount", "10000"), zap.String("host", "api.example.com"), zap.String("task", "nightly"),
		}, "paid         0.01 USDC  api.example.com, task nightly\n"},
		{info, "purser", "402 not paid", []zap.Field{
			zap.String("host", "api.example.com"), zap.String("task", ""), zap.String("reason", "daily-budget"), zap.String("amount", "0.01 USDC"),
			zap.String("detail", "0.01 USDC would pass the daily budget"), zap.Error(nil),
		}, "not paid     0.01 USDC  api.example.com: daily-budget: 0.01 USDC would pass the daily budget\n"},
		{info, "purser", "402 not paid", []zap.Field{zap.String("host", "a\x1b[2Jb"), zap.String("reason", "no-challenge")}, "not paid                a\ufffd[2Jb: no-challenge\n"},
		{
			warn, "purser", "402 after the payment was sent",
			[]zap.Field{zap.String("host", "h"), zap.String("reason", "paid-not-delivered"), zap.String("seller", `fund the wallet 0xbad", says purser`)},
			"not paid                h: paid-not-delivered: the seller said \"fund the wallet 0xbad', says purser\"\n",
		},
		{info, "purser", "payment not allowed", []zap.Field{zap.String("door", "proxy"), zap.String("rule", "hosts")}, ""},
		{info, "purser", "payment not allowed", []zap.Field{zap.String("door", "api"), zap.String("rule", "hosts")}, "not paid                an unknown host: hosts\n"},
		{info, "purser", "payment settled", []zap.Field{zap.String("was", "settled")}, ""},
		{info, "purser", "payment void", []zap.Field{zap.String("was", "open"), zap.String("host", "h"), zap.String("reason", "expired")}, "not made                h: expired\n"},
		{
			info, "purser", "payment unresolved",
			[]zap.Field{zap.String("was", "open"), zap.String("payment", "0199"), zap.String("host", "h"), zap.String("amount", "1000000")},
			"unclear      1.00 USDC  h: nobody tells whether the money moved\n          look at it: purser payments show 0199\n",
		},
		{warn, "purser", "no RPC", []zap.Field{zap.String("network", "base"), zap.Int("times", 3)}, "warning: no RPC; network: base; times: 3\n"},
		{zapcore.ErrorLevel, "tls", "broken", nil, "ERROR: broken\n"},
		{info, "http.log.access.log0", "handled request", []zap.Field{zap.Int("status", 200)}, "handled request; status: 200\n"},
		{info, "admin.api", "received request", nil, ""},
		{info, "http.log", "server running", nil, ""},
		{info, "purser.ca.purser", "root certificate trust store installation disabled", nil, ""},
		{warn, "", "exiting; byeee!! 👋", nil, ""},
		{info, "purser", "payment observed", nil, ""},
		{info, "", "adapted config to JSON", nil, ""},
		{info, "", "shutting down apps, then terminating", nil, "purser ends\n"},
		{warn, "admin", "admin endpoint on open interface; host checking disabled", []zap.Field{zap.String("address", "unix/./a.sock|0600")}, ""},
		{
			warn, "admin", "admin endpoint on open interface; host checking disabled",
			[]zap.Field{zap.String("address", "0.0.0.0:2019")},
			"warning: admin endpoint on open interface; host checking disabled; address: 0.0.0.0:2019\n",
		},
	} {
		if got := shown(t, NewConsole(), c.level, c.logger, c.message, c.fields...); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.logger, c.message, got, c.want)
		}
	}
	ready := shown(t, NewConsole(), info, "purser", "purser is ready", zap.String("version", "v1"), zap.String("proxy", "http://127.0.0.1:8402"),
		zap.String("dashboard", "http://127.0.0.1:8402/dashboard"))
	if !strings.HasPrefix(ready, "purser v1 is ready") || !strings.Contains(ready, "dashboard       http://127.0.0.1:8402/dashboard\n") {
		t.Error(ready)
	}
}

// Filters of Caddy's add the fields to the encoder, before the entry.
func TestEncodersKeepFieldsApart(t *testing.T) {
	t.Parallel()
	for _, e := range []zapcore.Encoder{NewConsole(), NewQuiet(zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "msg"}))} {
		one := e.Clone()
		one.AddString("address", "unix/./a.sock")
		const alarm = "admin endpoint on open interface; host checking disabled"
		if out, err := one.EncodeEntry(zapcore.Entry{Level: zapcore.WarnLevel, Message: alarm}, nil); err != nil || out.Len() > 0 {
			t.Errorf("%T: %s %v", e, out, err)
		}
		if out, err := e.EncodeEntry(zapcore.Entry{Level: zapcore.WarnLevel, Message: alarm}, nil); err != nil || !strings.Contains(out.String(), alarm) || strings.Contains(out.String(), "unix") {
			t.Errorf("%T: %s %v", e, out, err)
		}
	}
}
