//! Puts a report together: one HTML file that needs nothing else.

use minijinja::value::Serde;
use minijinja::{Environment, Value, context};
use serde::Serialize;

use super::chart::{Axis, Chart, DotRow, Dots, Line, Scaling};
use super::figures::{Body, Figure, Panel};
use super::papers::{Published, published};
use super::results::{self, Table};
use super::runs::{Outcomes, Series};
use super::{GENERATOR, distribution, scale::Scale};

/// What was measured.
pub(super) struct Measured {
    pub(super) figures: Vec<Figure>,
    pub(super) model: Outcomes,
    pub(super) servers: Option<Outcomes>,
}

/// What is said about the whole.
pub(super) struct About<'a> {
    pub(super) scale: &'a Scale,
    pub(super) seed: u64,
    pub(super) date: String,
    pub(super) setting: Vec<(String, String)>,
    pub(super) why_no_servers: Option<&'a str>,
}

#[derive(Serialize)]
struct FigureView {
    id: &'static str,
    heading: String,
    place: &'static str,
    said: &'static str,
    see: &'static str,
    published: Vec<PublishedView>,
    groups: Vec<Group>,
}

#[derive(Serialize)]
struct PublishedView {
    what: &'static str,
    paper: String,
    model: String,
    servers: String,
    source: String,
}

#[derive(Serialize)]
struct Group {
    title: &'static str,
    panels: Vec<PanelView>,
}

#[derive(Serialize)]
struct PanelView {
    drawing: String,
    table: Table,
    note: Option<String>,
}

/// The page.
pub(super) fn html(about: &About<'_>, measured: &Measured) -> Result<String, String> {
    let views = measured.figures.iter().map(|figure| figure_view(about, measured, figure));
    let figures = views.collect::<Result<Vec<_>, _>>()?;
    let mut environment = Environment::new();
    let failed = |error: minijinja::Error| format!("putting the page together: {error}");
    environment.add_template("page.html", include_str!("page.html")).map_err(failed)?;
    let page = environment.get_template("page.html").map_err(failed)?;
    page.render(context! {
        generator => GENERATOR,
        version => env!("CARGO_PKG_VERSION"),
        date => about.date.as_str(),
        setting => Value::from(Serde(&about.setting)),
        servers => measured.servers.is_some(),
        why_no_servers => about.why_no_servers,
        conclusions => conclusions(measured),
        overview => overview(measured).svg()?,
        figures => Value::from(Serde(&figures)),
    })
    .map_err(failed)
}

fn figure_view(about: &About<'_>, measured: &Measured, figure: &Figure) -> Result<FigureView, String> {
    let published = published().filter(|it| it.figure == figure.id);
    let heading = match figure.id.strip_prefix('w') {
        Some(number) => format!("Workshop figure {number}: {}", figure.title),
        None => format!("Figure {}: {}", figure.id, figure.title),
    };
    Ok(FigureView {
        id: figure.id,
        heading,
        place: figure.place,
        said: figure.said,
        see: figure.see,
        published: published.map(|it| published_view(&it, measured, figure)).collect(),
        groups: groups(about, measured, figure)?,
    })
}

fn published_view(published: &Published, measured: &Measured, figure: &Figure) -> PublishedView {
    let [model, servers] = both(published, measured, figure);
    let text = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
    PublishedView {
        what: published.what,
        paper: published.stated.text(),
        model: text(model),
        servers: text(servers),
        source: format!("{}, {}", published.source.0, published.source.1),
    }
}

/// Of the model, and of servers if there are any.
fn both(published: &Published, measured: &Measured, figure: &Figure) -> [Option<f64>; 2] {
    let panels = figure.panels();
    let on_servers = measured.servers.as_ref().and_then(|it| results::ours(published, panels, it, true));
    [results::ours(published, panels, &measured.model, false), on_servers]
}

/// What to take home: how many of the papers' ratios are reached, and which are not.
fn conclusions(measured: &Measured) -> Vec<String> {
    let rows: Vec<_> = published()
        .filter_map(|it| {
            let figure = measured.figures.iter().find(|figure| figure.id == it.figure)?;
            Some((both(&it, measured, figure), it))
        })
        .collect();
    let of_side = |name: &str, side: usize| {
        let known: Vec<_> =
            rows.iter().filter_map(|(ours, published)| Some((ours[side]?, published))).collect();
        let short: Vec<String> = known
            .iter()
            .filter(|(ours, published)| *ours < published.stated.value())
            .map(|(ours, published)| format!("{}: {ours:.2} ({})", published.what, published.stated.text()))
            .collect();
        let reached = known.len() - short.len();
        let count = known.len();
        let short = match short.is_empty() {
            true => String::new(),
            false => format!(" Below them: {}.", short.join("; ")),
        };
        (count > 0)
            .then(|| format!("{name}, {reached} of {count} ratios are as large as the papers'.{short}"))
    };
    let sides = [of_side("In our model", 0), of_side("On our servers", 1)];
    sides.into_iter().flatten().collect()
}

/// All published numbers in one drawing.
pub(super) fn overview(measured: &Measured) -> Dots {
    let row = |published: Published| {
        let figure = measured.figures.iter().find(|it| it.id == published.figure)?;
        let [model, servers] = both(&published, measured, figure);
        let mut marks = vec![(results::PAPER, published.stated.value())];
        let mut text = format!("paper {}", published.stated.text());
        for (name, look, value) in [("model", results::MODEL, model), ("servers", results::SERVERS, servers)]
        {
            if let Some(value) = value {
                // The model's mark is the smallest, and so the last.
                marks.insert(1, (look, value));
                text += &format!("; {name} {value:.2}");
            }
        }
        Some(DotRow { label: published.what.to_owned(), marks, text })
    };
    let mut legend = vec![("the paper".to_owned(), results::PAPER), ("our model".to_owned(), results::MODEL)];
    if measured.servers.is_some() {
        legend.push(("our servers".to_owned(), results::SERVERS));
    }
    Dots {
        title: "What the papers state beside what we measure".to_owned(),
        x: Axis { label: "ratio".to_owned(), scaling: Scaling::Log },
        has_one: true,
        legend,
        sides: (400, if measured.servers.is_some() { 360 } else { 230 }),
        rows: published().filter_map(row).collect(),
    }
}

fn groups(about: &About<'_>, measured: &Measured, figure: &Figure) -> Result<Vec<Group>, String> {
    let views = |panels: &[Panel], outcomes: &Outcomes| {
        panels.iter().map(|panel| panel_view(panel, outcomes)).collect::<Result<Vec<_>, _>>()
    };
    match &figure.body {
        Body::Measured(panels) => {
            let mut groups =
                vec![Group { title: "The model, in virtual time", panels: views(panels, &measured.model)? }];
            if let Some(outcomes) = &measured.servers {
                let panels: Vec<Panel> = panels.iter().map(Panel::on_servers).collect();
                groups.push(Group { title: "Servers, in real time", panels: views(&panels, outcomes)? });
            }
            Ok(groups)
        }
        Body::Bids => {
            let (by_item, over_time) = distribution::bids(about.scale, about.seed)?;
            let panels = vec![
                counted("bids by item", ("item, by rank", true), ("bids", true), by_item)?,
                counted(
                    "bids over time",
                    ("time, % of the auction", false),
                    ("% of all bids", false),
                    over_time,
                )?,
            ];
            Ok(vec![Group { title: "The workload, drawn", panels }])
        }
        Body::FollowersAndReposts => {
            let [followers, reposts] = distribution::followers_and_reposts(about.scale, about.seed)?;
            let mut panels = vec![
                counted("followers", ("followers, at least", true), ("users", true), followers.0)?,
                counted("reposts", ("reposts, at least", true), ("posts", true), reposts.0)?,
            ];
            (panels[0].note, panels[1].note) = (Some(followers.1), Some(reposts.1));
            Ok(vec![Group { title: "The workload, drawn", panels }])
        }
    }
}

fn panel_view(panel: &Panel, outcomes: &Outcomes) -> Result<PanelView, String> {
    Ok(PanelView {
        drawing: results::drawing(panel, outcomes)?,
        table: results::table(panel, outcomes),
        note: results::given_up(panel, outcomes),
    })
}

/// A chart of one line. An axis is its name, and whether it is logarithmic.
fn counted(
    title: &str,
    x: (&str, bool),
    y: (&str, bool),
    points: Vec<(f64, f64)>,
) -> Result<PanelView, String> {
    let axis = |(label, is_log): (&str, bool)| Axis {
        label: label.to_owned(),
        scaling: if is_log { Scaling::Log } else { Scaling::Linear },
    };
    let cells = |point: &(f64, f64)| vec![number(point.0), number(point.1)];
    // A page needs no more of them.
    let step = points.len().div_ceil(20).max(1);
    let table = Table {
        header: vec![x.0.to_owned(), y.0.to_owned()],
        rows: points.iter().step_by(step).map(cells).collect(),
    };
    let line = Line { name: "our workload".to_owned(), look: results::look(Series::Claret), points };
    let chart = Chart { title: title.to_owned(), x: axis(x), y: axis(y), lines: vec![line] };
    Ok(PanelView { drawing: chart.svg()?, table, note: None })
}

/// A whole number as one, others with one digit behind the point.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}
