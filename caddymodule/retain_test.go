package caddymodule

import (
	"testing"
	"time"
)

func TestRetain(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		option, variable string
		want             time.Duration
	}{
		{"", "", 0},
		{"off", "400d", 0},
		{"60d", "", 60 * day},
		{"", "400d", 400 * day},
		{"1440h", "off", 60 * day},
	} {
		t.Setenv("PURSER_RETAIN", c.variable)
		s, err := (&App{Retain: c.option}).resolve()
		if err != nil || s.retain != c.want {
			t.Errorf("%q, %q: %s, %v", c.option, c.variable, s.retain, err)
		}
	}
}
