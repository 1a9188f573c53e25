package leaserenewal

import "time"

// SetWall gives r another wall clock, which may go on while the monotonic one, that
// of the bubble, stands still.
func (r *Renewal) SetWall(wall func() time.Time) { r.wall = wall }

// Next is the delay before the next attempt, as the schedule has it.
func Next(ttl time.Duration, failures int) time.Duration { return newSchedule(ttl).next(failures) }

// WallClock is the wall clock of each Renewal.
var WallClock = wallClock
