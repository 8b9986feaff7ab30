//! Draws charts as SVG. Colours are those of Okabe and Ito, which colour-blind people tell apart; every series has a shape of its
//! own besides.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;

/// The shape of points. Those of different sizes are seen where they stand on each other: a circle within a square within a halo,
/// and a plus across them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Circle,
    Ring,
    Halo,
    Triangle,
    Cross,
    Plus,
    Square,
}

/// How a series looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) color: (u8, u8, u8),
    pub(super) shape: Shape,
    pub(super) dashed: bool,
}

impl Look {
    fn color(self) -> RGBColor {
        let (red, green, blue) = self.color;
        RGBColor(red, green, blue)
    }
}

/// Whether equal lengths are equal differences or equal ratios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scaling {
    Linear,
    Log,
}

impl Scaling {
    /// Ratios where equal differences would press the small values together.
    pub(super) fn fit(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .filter(|value| *value > 0.0)
            .fold((f64::INFINITY, 0.0), |(low, high), value| (value.min(low), value.max(high)));
        if high > 10.0 * low { Scaling::Log } else { Scaling::Linear }
    }

    /// Where a value stands. Nothing that is not above 0 has a place on a logarithmic axis.
    pub(super) fn place(self, value: f64) -> Option<f64> {
        match self {
            Scaling::Linear => Some(value),
            Scaling::Log => (value > 0.0).then(|| value.log10()),
        }
    }

    /// From where to where an axis goes: from 0 and with some room above, or in whole decades.
    pub(super) fn range(self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let (low, high) = values
            .filter_map(|value| self.place(value))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(at), high.max(at)));
        match self {
            _ if low > high => (0.0, 1.0),
            Scaling::Linear => (low.min(0.0), if high > 0.0 { high * 1.05 } else { 1.0 }),
            Scaling::Log => {
                (low.floor(), if high.ceil() > low.floor() { high.ceil() } else { low.floor() + 1.0 })
            }
        }
    }

    /// What stands at a place of the axis; nothing between decades.
    pub(super) fn label(self, at: f64) -> String {
        match self {
            Scaling::Linear => short(at),
            Scaling::Log if (at - at.round()).abs() < 1e-6 => short(10f64.powf(at.round())),
            Scaling::Log => String::new(),
        }
    }

    /// How many labels an axis has at most.
    fn labels(self, (low, high): (f64, f64)) -> usize {
        match self {
            Scaling::Linear => 7,
            Scaling::Log => (high - low) as usize + 1,
        }
    }
}

impl Axis {
    /// Its name, and what is unusual about it.
    fn text(&self) -> String {
        match self.scaling {
            Scaling::Linear => self.label.clone(),
            Scaling::Log => format!("{} (logarithmic)", self.label),
        }
    }
}

/// A number in few characters.
pub(super) fn short(value: f64) -> String {
    let digits = |value: f64| {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match value.abs() {
        it if it >= 1e6 => format!("{} M", digits(value / 1e6)),
        it if it >= 1e3 => format!("{} k", digits(value / 1e3)),
        _ => digits(value),
    }
}

/// An axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) scaling: Scaling,
}

/// A line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) look: Look,
    pub(super) points: Vec<(f64, f64)>,
}

/// Lines over two axes.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
}

/// Values one below the other on one axis.
#[derive(Clone, Debug)]
pub(super) struct Dots {
    pub(super) title: String,
    pub(super) x: Axis,
    /// What they are ratios to 1 of, if they are ratios.
    pub(super) has_one: bool,
    pub(super) legend: Vec<(String, Look)>,
    /// Room for the labels to the left, and for the texts to the right.
    pub(super) sides: (u32, u32),
    pub(super) rows: Vec<DotRow>,
}

/// One row.
#[derive(Clone, Debug)]
pub(super) struct DotRow {
    pub(super) label: String,
    pub(super) marks: Vec<(Look, f64)>,
    /// The values once more, in words.
    pub(super) text: String,
}

const WIDTH: u32 = 640;
const HEIGHT: u32 = 360;
/// The legend stands to the right, where no line is.
const LEGEND_WIDTH: u32 = 150;
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
/// Of the axis of dots.
const DOTS_WIDTH: u32 = 420;
/// Of a row of dots.
const ROW_HEIGHT: u32 = 30;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn text(size: i32) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&INK)
}

impl Chart {
    /// As SVG.
    pub(super) fn svg(&self) -> Result<String, String> {
        let name = format!("{}: {} by {}", self.title, self.y.label, self.x.label);
        svg((WIDTH, HEIGHT), &name, |root| self.draw(root))
    }

    fn draw(&self, root: &Area<'_>) -> Drawn {
        let (left, right) = root.split_horizontally(WIDTH - LEGEND_WIDTH);
        let points = || self.lines.iter().flat_map(|line| line.points.iter());
        let x = self.x.scaling.range(points().map(|point| point.0));
        let y = self.y.scaling.range(points().map(|point| point.1));
        let mut chart = ChartBuilder::on(&left)
            .caption(&self.title, text(20))
            .margin(8)
            .margin_right(18)
            .x_label_area_size(46)
            .y_label_area_size(66)
            .build_cartesian_2d(x.0..x.1, y.0..y.1)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .x_desc(self.x.text())
            .y_desc(self.y.text())
            .axis_desc_style(text(17))
            .label_style(text(16))
            .x_labels(self.x.scaling.labels(x))
            .y_labels(self.y.scaling.labels(y))
            .x_label_formatter(&|at| self.x.scaling.label(*at))
            .y_label_formatter(&|at| self.y.scaling.label(*at))
            .draw()?;
        let places_of = |line: &Line| -> Vec<(i32, i32)> {
            let places = line
                .points
                .iter()
                .filter_map(|(x, y)| Some((self.x.scaling.place(*x)?, self.y.scaling.place(*y)?)));
            places.map(|place| chart.backend_coord(&place)).collect()
        };
        // A dashed line over another one leaves both to be seen.
        let (dashed, solid): (Vec<_>, Vec<_>) = self.lines.iter().partition(|line| line.look.dashed);
        for line in solid.into_iter().chain(dashed) {
            stroke(root, &places_of(line), line.look)?;
        }
        for line in &self.lines {
            places_of(line).iter().try_for_each(|at| mark(root, *at, line.look))?;
        }
        let names: Vec<(String, Look)> = self.lines.iter().map(|it| (it.name.clone(), it.look)).collect();
        legend(&right, &names, (4, 44))
    }
}

impl Dots {
    /// As SVG.
    pub(super) fn svg(&self) -> Result<String, String> {
        let height = self.rows.len() as u32 * ROW_HEIGHT + 62 + self.top();
        svg((self.width(), height), &self.title, |root| self.draw(root))
    }

    fn width(&self) -> u32 {
        self.sides.0 + DOTS_WIDTH + self.sides.1
    }

    /// Room for the title and the legend.
    fn top(&self) -> u32 {
        if self.legend.is_empty() { 40 } else { 66 }
    }

    fn draw(&self, root: &Area<'_>) -> Drawn {
        let scaling = self.x.scaling;
        let values = self.rows.iter().flat_map(|row| row.marks.iter().map(|mark| mark.1));
        let x = scaling.range(values.chain(self.has_one.then_some(1.0)));
        let count = self.rows.len() as f64;
        let (_, right) = root.split_horizontally(self.width() - self.sides.1 + 15);
        let mut chart = ChartBuilder::on(root)
            .margin(8)
            .margin_left(self.sides.0)
            .margin_right(self.sides.1)
            .margin_top(self.top())
            .x_label_area_size(46)
            .build_cartesian_2d(x.0..x.1, -0.5..count - 0.5)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(0)
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .x_desc(self.x.text())
            .axis_desc_style(text(17))
            .label_style(text(16))
            .x_labels(scaling.labels(x))
            .x_label_formatter(&|at| scaling.label(*at))
            .draw()?;
        if let Some(one) = scaling.place(1.0).filter(|_| self.has_one) {
            let ends = [(one, -0.5), (one, count - 0.5)].map(|place| chart.backend_coord(&place));
            root.draw(&PathElement::new(ends.to_vec(), INK.stroke_width(1)))?;
        }
        for (at, row) in self.rows.iter().enumerate() {
            let y = chart.backend_coord(&(x.0, count - 1.0 - at as f64)).1;
            let place = |value: f64| scaling.place(value).map(|x| chart.backend_coord(&(x, 0.0)).0);
            let places: Vec<(Look, i32)> =
                row.marks.iter().filter_map(|(look, value)| Some((*look, place(*value)?))).collect();
            let ends = (places.iter().map(|it| it.1).min(), places.iter().map(|it| it.1).max());
            if let (Some(low), Some(high)) = ends {
                root.draw(&PathElement::new(vec![(low, y), (high, y)], RGBColor(0x99, 0x99, 0x99)))?;
            }
            places.iter().try_for_each(|(look, x)| mark(root, (*x, y), *look))?;
            root.draw(&Text::new(row.label.clone(), (8, y - 8), text(17)))?;
            right.draw(&Text::new(row.text.clone(), (4, y - 8), text(16)))?;
        }
        self.head(root)
    }

    /// The title, and the legend in a row below it.
    fn head(&self, root: &Area<'_>) -> Drawn {
        root.draw(&Text::new(self.title.clone(), (8, 8), text(20)))?;
        let mut x = self.sides.0 as i32;
        for (name, look) in &self.legend {
            mark(root, (x, 50), *look)?;
            root.draw(&Text::new(name.clone(), (x + 16, 43), text(17)))?;
            x += 48 + 8 * name.chars().count() as i32;
        }
        Ok(())
    }
}

/// A line through points of the canvas.
fn stroke(root: &Area<'_>, places: &[(i32, i32)], look: Look) -> Drawn {
    let style = look.color().stroke_width(2);
    match look.dashed {
        true => root.draw(&DashedPathElement::new(places.to_vec(), 7, 5, style))?,
        false => root.draw(&PathElement::new(places.to_vec(), style))?,
    }
    Ok(())
}

/// A point.
fn mark(root: &Area<'_>, at: (i32, i32), look: Look) -> Drawn {
    let (color, (x, y)) = (look.color(), at);
    match look.shape {
        Shape::Circle => root.draw(&Circle::new(at, 4, color.filled()))?,
        Shape::Ring => {
            root.draw(&Circle::new(at, 5, WHITE.filled()))?;
            root.draw(&Circle::new(at, 5, color.stroke_width(2)))?;
        }
        Shape::Halo => root.draw(&Circle::new(at, 8, color.stroke_width(2)))?,
        Shape::Triangle => root.draw(&TriangleMarker::new(at, 7, color.filled()))?,
        Shape::Cross => root.draw(&Cross::new(at, 5, color.stroke_width(2)))?,
        Shape::Plus => {
            for ends in [vec![(x - 8, y), (x + 8, y)], vec![(x, y - 8), (x, y + 8)]] {
                root.draw(&PathElement::new(ends, color.stroke_width(2)))?;
            }
        }
        Shape::Square => root.draw(&Rectangle::new([(x - 5, y - 5), (x + 5, y + 5)], color.filled()))?,
    }
    Ok(())
}

/// Names under each other.
fn legend(area: &Area<'_>, names: &[(String, Look)], (x, top): (i32, i32)) -> Drawn {
    for (at, (name, look)) in names.iter().enumerate() {
        let y = top + 24 * at as i32;
        stroke(area, &[(x, y), (x + 26, y)], *look)?;
        mark(area, (x + 13, y), *look)?;
        area.draw(&Text::new(name.clone(), (x + 34, y - 8), text(17)))?;
    }
    Ok(())
}

fn svg(size: (u32, u32), name: &str, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, String> {
    let mut drawn = String::new();
    let failed = |error: &dyn std::fmt::Display| format!("drawing '{name}': {error}");
    {
        let root = SVGBackend::with_string(&mut drawn, size).into_drawing_area();
        root.fill(&WHITE).map_err(|error| failed(&error))?;
        draw(&root).map_err(|error| failed(&error))?;
        root.present().map_err(|error| failed(&error))?;
    }
    let label = name.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    Ok(drawn.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{label}\" "), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_all_values_and_say_decades() {
        let (low, high) = Scaling::Linear.range([3.0, 100.0].into_iter());
        assert!(low == 0.0 && (100.0..120.0).contains(&high));
        assert_eq!(Scaling::Log.range([0.3, 49.0, 0.0].into_iter()), (-1.0, 2.0));
        assert_eq!(Scaling::Log.range([10.0].into_iter()), (1.0, 2.0));
        assert_eq!(Scaling::Log.range(std::iter::empty()), (0.0, 1.0));
        assert_eq!(Scaling::fit([0.0, 2.0, 19.0].into_iter()), Scaling::Linear);
        assert_eq!(Scaling::fit([2.0, 21.0].into_iter()), Scaling::Log);
        assert_eq!([-1.0, 0.5, 2.0, 3.0].map(|at| Scaling::Log.label(at)), ["0.1", "", "100", "1 k"]);
        assert_eq!((Scaling::Log.place(0.0), Scaling::Log.place(100.0)), (None, Some(2.0)));
        assert_eq!([0.0, 0.25, 1_500.0, 2e6].map(short), ["0", "0.25", "1.5 k", "2 M"]);
    }

    #[test]
    fn a_chart_is_a_well_formed_drawing_with_all_its_words() {
        let look = Look { color: (0, 0, 0), shape: Shape::Ring, dashed: true };
        let axis = |label: &str, scaling| Axis { label: label.to_owned(), scaling };
        let line = Line { name: "a<b".into(), look, points: vec![(1.0, 0.0), (2.0, 50.0), (3.0, 7.0)] };
        let chart = Chart {
            title: "title & more".into(),
            x: axis("across", Scaling::Linear),
            y: axis("up, ms", Scaling::Log),
            lines: vec![line],
        };
        let drawn = chart.svg().expect("drawn");
        let document = roxmltree::Document::parse(&drawn).expect("well-formed");
        let words: String = document.descendants().filter_map(|node| node.text()).collect();
        for word in ["title & more", "across", "up, ms (logarithmic)", "a<b", "10"] {
            assert!(words.contains(word), "{word}: {drawn}");
        }
        // The value 0 has no place on a logarithmic axis.
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
}
